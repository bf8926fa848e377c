"""Where a double-click bundle begins: docs/release.md has the recipe.

Without arguments it opens the workbench; with arguments it is the command `reassembly`.
"""

import multiprocessing
import sys

from reassembly.cli import main

if __name__ == "__main__":
    multiprocessing.freeze_support()  # A bundle starts its workers by starting itself.
    if len(sys.argv) == 1:
        sys.argv.append("serve")
    main()
