"""Feeds a reader what a coverage-guided fuzzer makes up, for a while.

python tools/fuzz.py zip --seconds 120

Needs `pip install "reassembly[fuzz]"`. Readers and what they may do are those of tests/fuzz. A
file that breaks one is kept in --found (fuzz-found by default), and belongs, with its cure, into
tests/fuzz/test_found.py.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import traceback
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# No more than what reads: instrumenting all would take minutes.
READING = ["reassembly.io", "reassembly.config", "reassembly.reproduce.repair", "yaml", "zipfile"]
with atheris.instrument_imports(include=READING):
    from tests.fuzz.readers import READERS, survives

LARGEST_BYTES = 16_384


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reader", choices=list(READERS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="0 for another each time")
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"))
    options = parser.parse_args()
    known: set[str] = set()

    def attack(data: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            try:
                survives(options.reader, data, Path(folder))
            except Exception as error:
                keep(options.found, options.reader, data, error, known)

    with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as corpus:
        for seed in READERS[options.reader].seeds():
            (Path(corpus) / hashlib.sha256(seed).hexdigest()).write_bytes(seed)
        arguments = [f"-max_total_time={options.seconds}", f"-max_len={LARGEST_BYTES}"]
        arguments += ["-timeout=20", "-rss_limit_mb=4096", f"-seed={options.seed}"]
        arguments += ["-print_final_stats=1", "-verbosity=0"]
        arguments += [f"-artifact_prefix={options.found}/{options.reader}-"]
        options.found.mkdir(parents=True, exist_ok=True)
        atheris.Setup([sys.argv[0], *arguments, corpus], attack)
        atheris.Fuzz()


def keep(folder: Path, reader: str, data: bytes, error: Exception, known: set[str]) -> None:
    """Keeps one file for every place at which the reader broke."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    if place in known:
        return
    known.add(place)
    path = folder / f"{reader}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    print(f"{place}: {str(error)[:200]} ({path})", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
