"""The extra `docs`: the site, of the sources in the folder that is the first argument."""

import os
import subprocess
import sys

command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", f"--site-dir={os.getcwd()}/site"]
subprocess.run(command, cwd=sys.argv[1], check=True)
