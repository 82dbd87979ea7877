"""`python -m memoryos_audit.sealer`."""

import sys

from memoryos_audit.sealer.main import main

sys.exit(main())
