"""`python -m tenxgraph` does what the command `tenxgraph` does."""

import sys

from tenxgraph.cli import main

sys.exit(main())
