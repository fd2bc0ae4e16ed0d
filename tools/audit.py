"""Known vulnerabilities of pinned sets, from the public OSV data, by pip-audit.

    .venv-audit/bin/python tools/audit.py constraints.txt constraints-2.21.txt

`make audit` installs pip-audit and runs this. Needs a network. Ends with 0 where every pin was looked up and nothing is
known of any; with 1 where something is; with 2 where a pin could not be looked up, so that no answer is no all-clear.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from lock import LockError, pins

_KNOWN, _UNKNOWN = 1, 2  # exit codes


class AuditError(Exception):
    """A set that could not be looked up, and why."""


def looked_up(pip_audit: str, path: str, osv_url: str | None = None) -> list[dict[str, Any]]:
    """pip-audit's answer about each pin of a file.

    Returns:
      list of dictionaries with 'name', and either 'version' and 'vulns' or 'skip_reason'.

    Raises:
      AuditError: pip-audit could not be run, could not ask, or left out a pin.
    """
    command = [pip_audit, "--disable-pip", "--no-deps", "--vulnerability-service=osv", "--format=json"]
    command += ["--progress-spinner=off", f"--requirement={path}"]
    command += [f"--osv-url={osv_url}"] if osv_url else []
    try:
        wanted = pins(path)
        done = subprocess.run(command, capture_output=True, text=True)
        # Where something is known it ends with 1, as it does where nobody answers.
        answers: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"] if done.stdout.strip() else []
    except (LockError, OSError, ValueError, KeyError, TypeError) as error:
        raise AuditError(f"{path} was not audited: {error}") from None
    if len(answers) != len(wanted):
        reason = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise AuditError(
            f"{path} was not audited: pip-audit answered about {len(answers)} of its {len(wanted)} pins. "
            f"It needs a network that reaches the OSV service. Its last words: {reason}"
        )
    skipped = [f"{each['name']} ({each['skip_reason']})" for each in answers if "skip_reason" in each]
    if skipped:
        raise AuditError(
            f"{path} was not audited: {len(skipped)} of its {len(wanted)} pins are unknown there, first {skipped[0]}."
        )
    return answers


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("constraints", nargs="+", help="Files of exact versions.")
    beside = os.path.join(os.path.dirname(sys.executable), "pip-audit")
    parser.add_argument("--pip_audit", default=beside, help="Path of the program; by default that of this environment.")
    parser.add_argument("--osv_url", help="Address of a copy of the OSV service, in place of the public one.")
    options = parser.parse_args(arguments)
    code = 0
    for path in options.constraints:
        try:
            answers = looked_up(options.pip_audit, path, options.osv_url)
        except AuditError as error:
            print(error, file=sys.stderr)
            code = _UNKNOWN
            continue
        known = [(each, found) for each in answers for found in each["vulns"]]
        print(f"{path}: {len(answers)} pins, {len(known)} known vulnerabilities")
        for each, found in known:
            names = ", ".join([found["id"], *found.get("aliases", [])])
            fixed = ", ".join(found.get("fix_versions", [])) or "no version"
            print(f"  {each['name']} {each['version']}: {names}; fixed in {fixed}")
        code = max(code, _KNOWN if known else 0)
    return code


if __name__ == "__main__":
    sys.exit(main())
