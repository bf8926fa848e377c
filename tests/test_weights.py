import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from reassembly import weights as store
from reassembly.cli import app
from reassembly.errors import InputError
from reassembly.texture.resnet import ResNet18
from reassembly.weights import (
    add_weights,
    list_weights,
    load_module,
    load_texture_encoder,
    load_weights,
    save_weights,
)


@pytest.fixture
def own_store(tmp_path, monkeypatch):
    """An empty package folder and cache."""
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setattr(store, "HERE", folder)
    monkeypatch.setattr(store, "INDEX", folder / "index.json")
    monkeypatch.setenv("REASSEMBLY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return folder


def linear(path, width=3, kind="selector", half=True):
    module = nn.Linear(width, 2)
    save_weights(path, module, kind, {"width": width}, half=half)
    return module


def test_weights_come_back(tmp_path):
    module = linear(tmp_path / "a.safetensors", half=False)
    weights = load_weights(tmp_path / "a.safetensors", "selector")
    assert (weights.kind, weights.config) == ("selector", {"width": 3})
    assert weights.sha256 == hashlib.sha256((tmp_path / "a.safetensors").read_bytes()).hexdigest()
    other = nn.Linear(3, 2)
    load_module(other, weights)
    assert torch.equal(other.weight, module.weight)


def test_the_same_weights_give_the_same_bytes(tmp_path):
    module = nn.Linear(3, 2)
    for name in "abcdef":
        save_weights(tmp_path / name, module, "selector", {"b": 1, "a": 2})
    assert len({(tmp_path / name).read_bytes() for name in "abcdef"}) == 1


def test_half_precision_is_stored_and_single_restored(tmp_path):
    module = linear(tmp_path / "a.safetensors")
    weights = load_weights(tmp_path / "a.safetensors", "selector")
    assert weights.tensors["weight"].dtype == torch.float16
    other = nn.Linear(3, 2)
    load_module(other, weights)
    assert other.weight.dtype == torch.float32
    assert torch.equal(other.weight, module.weight.half().float())


def test_a_run_stands_for_its_weights(tmp_path):
    linear(tmp_path / "weights.safetensors")
    assert load_weights(tmp_path, "selector").kind == "selector"


def test_another_kind_is_refused(tmp_path):
    linear(tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="kind selector, but texture is wanted"):
        load_weights(tmp_path / "a.safetensors", "texture")


def test_another_network_is_refused_with_the_first_difference(tmp_path):
    linear(tmp_path / "a.safetensors")
    weights = load_weights(tmp_path / "a.safetensors", "selector")
    other = nn.Linear(4, 2)
    before = other.weight.clone()
    with pytest.raises(
        InputError,
        match=r"of weight, the file has 2x3 and the network has 2x4.*width 3 instead of 4",
    ):
        load_module(other, weights, {"width": 4})
    assert torch.equal(other.weight, before)
    with pytest.raises(InputError, match=r"of 0\.weight, the file has none"):
        load_module(nn.Sequential(nn.Linear(3, 2)), weights)
    with pytest.raises(InputError, match="of bias, the file has 2 and the network has none"):
        load_module(nn.Linear(3, 2, bias=False), weights)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt"])
def test_pickles_are_refused_unread(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    torch.save({"weight": torch.zeros(1)}, path)
    with pytest.raises(InputError, match="safetensors"):
        load_weights(path, "selector")


def test_damaged_and_missing_files_are_named(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(InputError, match="no such weights"):
        load_weights(path, "selector")
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match=r"a\.safetensors"):
        load_weights(path, "selector")


def test_names_load_from_the_store_and_are_checked(tmp_path, own_store):
    linear(tmp_path / "weights.safetensors")
    card = tmp_path / "card.md"
    card.write_text("# A line for tests\n\nMore.\n")
    added = add_weights(tmp_path, "straight", card)
    assert (added.kind, added.about, added.present) == ("selector", "A line for tests", True)
    assert load_weights("straight", "selector").sha256 == added.sha256
    assert [file.name for file in list_weights()] == ["straight", "imagenet-resnet18"]

    linear(own_store / "straight.safetensors")
    with pytest.raises(InputError, match="damaged"):
        load_weights("straight", "selector")
    (own_store / "straight.safetensors").write_bytes(b"cut short")
    with pytest.raises(InputError, match=r"damaged: their checksum.*Install reassembly again"):
        load_weights("straight", "selector")
    (own_store / "straight.safetensors").unlink()
    with pytest.raises(InputError, match="missing from the installation"):
        load_weights("straight", "selector")
    with pytest.raises(InputError, match=r"Choose from straight, or train some with `reassembly"):
        load_weights("strait", "selector")


def test_only_weights_that_say_what_they_are_are_added(tmp_path, own_store):
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    (tmp_path / "card.md").write_text("About\n")
    with pytest.raises(InputError, match="do not say what they are"):
        add_weights(tmp_path / "a.safetensors", "a", tmp_path / "card.md")
    linear(tmp_path / "b.safetensors")
    with pytest.raises(InputError, match="cannot be a name"):
        add_weights(tmp_path / "b.safetensors", "../b", tmp_path / "card.md")
    with pytest.raises(InputError, match=r"nowhere\.md"):
        add_weights(tmp_path / "b.safetensors", "b", tmp_path / "nowhere.md")
    assert not (own_store / "index.json").exists()


def test_nothing_is_downloaded_unasked(own_store):
    with pytest.raises(InputError, match="weights get imagenet-resnet18"):
        load_weights("imagenet-resnet18", "texture")
    with pytest.raises(InputError, match="weights get hf:someone/something"):
        load_weights("hf:someone/something", "reassemblenet")
    with pytest.raises(InputError, match="hf:owner/name"):
        load_weights("hf:no/such/name at all", "reassemblenet")


def test_a_published_checkpoint_is_fetched_checked_and_converted(tmp_path, own_store, monkeypatch):
    """From a file of its kind, with a classifier, under a URL of its own."""
    network = ResNet18(4)
    published = published_trunk(network, tmp_path / "net.pth")
    content = (tmp_path / "net.pth").read_bytes()
    monkeypatch.setitem(store.PUBLISHED, "small", published)
    seen = []
    path = store.download("small", lambda done, total, what: seen.append((done, total)))
    assert seen[-1] == (len(content), len(content))
    encoder, _ = load_texture_encoder("small")
    assert torch.equal(encoder.trunk.conv1.weight, network.conv1.weight)
    save_weights(path, ResNet18(4), "texture", {"width": 4, "input_px": 32})
    with pytest.raises(
        InputError, match=r"damaged.*Remove the file and run `reassembly weights get"
    ):
        load_texture_encoder("small")
    assert store.download("small") == path
    assert torch.equal(load_texture_encoder("small")[0].trunk.conv1.weight, network.conv1.weight)
    path.unlink()
    (tmp_path / "net.pth").write_bytes(content[:-1] + b"?")
    with pytest.raises(InputError, match="not the file that was published"):
        store.download("small")
    with pytest.raises(InputError, match=r"net\.pth.*not the file that was published"):
        store.download("small", source=tmp_path / "net.pth")
    assert not path.exists()

    (tmp_path / "net.pth").unlink()
    (tmp_path / "fetched.pth").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be reached.*weights get small --from FILE"):
        store.download("small")
    with pytest.raises(InputError, match=r"nowhere\.pth"):
        store.download("small", source=tmp_path / "nowhere.pth")
    call = ["weights", "get", "small", "--from", str(tmp_path / "fetched.pth")]
    assert CliRunner().invoke(app, call).exit_code == 0
    encoder, _ = load_texture_encoder("small")
    assert torch.equal(encoder.trunk.conv1.weight, network.conv1.weight)


def test_weights_that_hold_what_is_no_number_are_refused(tmp_path):
    module = torch.nn.Linear(3, 2)
    with torch.no_grad():
        module.weight[0, 1] = torch.nan
    save_weights(tmp_path / "a.safetensors", module, "selector", {"width": 3})
    with pytest.raises(
        InputError, match=r"a\.safetensors.*damaged: weight holds what is no number"
    ):
        load_weights(tmp_path / "a.safetensors", "selector")


def test_resnets_from_elsewhere_load(tmp_path):
    state = {k: v for k, v in ResNet18(8).state_dict().items() if "num_batches" not in k}
    save_file({**state, "fc.bias": torch.zeros(2)}, tmp_path / "net.safetensors")
    encoder, weights = load_texture_encoder(tmp_path / "net.safetensors")
    assert (encoder.dim, weights.config["width"]) == (64, 8)


def test_the_shipped_files_are_as_indexed():
    for file in list_weights():
        if file.path.parent == store.HERE:
            content = file.path.read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
            assert file.about, f"{file.name} has no model card"
            load_weights(file.name, file.kind)


def test_the_command_lists_and_adds(tmp_path, own_store):
    linear(tmp_path / "a.safetensors")
    (tmp_path / "card.md").write_text("A line\n")
    call = ["weights", "add", str(tmp_path / "a.safetensors"), "--name", "line"]
    result = CliRunner().invoke(app, [*call, "--card", str(tmp_path / "card.md")])
    assert result.exit_code == 0, result.output
    index = json.loads((own_store / "index.json").read_text())
    assert index["line"]["kind"] == "selector"
    listed = CliRunner().invoke(app, ["weights"]).output
    assert "line" in listed and index["line"]["sha256"][:8] in listed and "not downloaded" in listed
    shutil.rmtree(own_store)


def test_a_shipped_file_that_is_gone_is_not_called_a_download(tmp_path, own_store):
    linear(tmp_path / "a.safetensors")
    (tmp_path / "card.md").write_text("A line\n")
    added = add_weights(tmp_path / "a.safetensors", "line", tmp_path / "card.md")
    assert added.shipped
    added.path.unlink()
    listed = CliRunner().invoke(app, ["weights"]).output
    words = " ".join(listed.split())
    assert words.count("not downloaded") == 1, "imagenet-resnet18 alone"
    assert "missing from the installation" in words and "Install reassembly again" in words


def test_paths_are_made_to_hold_anywhere_and_names_stay(tmp_path, own_store, monkeypatch):
    (tmp_path / "run").mkdir()
    linear(tmp_path / "run" / "weights.safetensors")
    (tmp_path / "card.md").write_text("A line\n")
    add_weights(tmp_path / "run", "line", tmp_path / "card.md")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line").mkdir()  # Where weights are named, a name comes before a folder.
    for name in ("line", "imagenet-resnet18", "hf:owner/name@main", "nothing"):
        assert store.anywhere(name) == name
    found = store.anywhere("run")
    monkeypatch.chdir(tmp_path.parent)
    assert load_weights(found, "selector").config == {"width": 3}


def published_trunk(network, path):
    """A small network as a checkpoint that somebody published, with a classifier."""
    head = torch.zeros(2, network.conv1.weight.shape[0] * 8)
    torch.save({**network.state_dict(), "fc.weight": head}, path)
    content = path.read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    config = {"width": network.conv1.weight.shape[0], "input_px": 32}
    return store.Download(path.as_uri(), len(content), checksum, "texture", config, "for tests")


@contextmanager
def hub(content):
    """A hub with one public repository, `someone/thing`; gives its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_HEAD(self):
            there = self.path == "/someone/thing/resolve/main/weights.safetensors"
            self.send_response(200 if there else 404)
            if there:
                self.send_header("X-Repo-Commit", "0" * 40)
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            else:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", str(len(content) if there else 0))
            self.end_headers()
            return there

        def do_GET(self):
            if self.do_HEAD():
                self.wfile.write(content)

        def log_message(self, *_):
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_hub_is_asked_once_and_what_it_gave_needs_no_network(tmp_path):
    linear(tmp_path / "weights.safetensors")
    content = (tmp_path / "weights.safetensors").read_bytes()

    def get(name, address):
        ours = {"HF_ENDPOINT": address, "HF_HUB_CACHE": str(tmp_path / "hub"), "NO_PROXY": "*"}
        off = {"HF_HUB_OFFLINE", "HF_TOKEN"}
        inherited = {key: value for key, value in os.environ.items() if key not in off}
        command = [sys.executable, "-m", "reassembly.cli", "weights", "get", name]
        return subprocess.run(
            command, env={**inherited, **ours}, capture_output=True, text=True, timeout=60
        )

    with hub(content) as address:
        absent = get("hf:someone/nothing", address)
    assert absent.returncode == 2 and "Check that it exists" in absent.stderr

    begun = time.monotonic()
    failed = get("hf:someone/thing", address)
    assert time.monotonic() - begun < 15
    assert failed.returncode == 2
    said = "error: hf:someone/thing cannot be reached. Check the connection, then try again."
    assert failed.stderr.strip() == said

    with hub(content) as address:
        fetched = get("hf:someone/thing", address)
    assert fetched.returncode == 0, fetched.stderr
    again = get("hf:someone/thing", address)
    assert (again.returncode, again.stdout) == (0, fetched.stdout), again.stderr
    found = (tmp_path / "hub").rglob("weights.safetensors")
    assert [path.read_bytes() for path in found] == [content]
