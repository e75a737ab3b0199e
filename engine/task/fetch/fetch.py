"""Lets pip download one source distribution, pinned by hash.

Runs inside a throw-away box with network and nothing of ours in it:

    fetch.py PACKAGE VERSION SHA256 TARGET

A SHA256 of "-" takes what the index has.

pip asks the build back end of whatever it downloads for its metadata, which
means running the package's own code. The stand-ins written here take the
place of the usual back ends: they answer from PKG-INFO, so that nothing of the
package runs, nothing else is downloaded, and old packages stay fetchable when
their build tools have moved on. A package that brings a back end of its own
does run it; that is what the box is for.
"""

import os
import shutil
import subprocess
import sys
import tempfile

BACK_ENDS = (
    "setuptools.build_meta",
    "flit_core.buildapi",
    "hatchling.build",
    "poetry.core.masonry.api",
    "pdm.backend",
)

STAND_IN = '''
import os, sys

def prepare_metadata_for_build_wheel(directory, config_settings=None):
    fields = {}
    with open("PKG-INFO", encoding="utf-8", errors="replace") as f:
        for line in f:
            if not line.strip():
                break
            key, _, value = line.partition(":")
            fields.setdefault(key, value.strip())
    name, version = fields["Name"], fields["Version"]
    info = "%s-%s.dist-info" % (name.replace("-", "_"), version)
    os.mkdir(os.path.join(directory, info))
    with open(os.path.join(directory, info, "METADATA"), "w") as f:
        f.write("Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n" % (name, version))
    return info

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(*args, **kwargs):
    raise RuntimeError("nothing is built here")

__legacy__ = sys.modules[__name__]
'''


def stand_ins(directory):
    for name in BACK_ENDS:
        path = directory
        for part in name.split(".")[:-1]:
            path = os.path.join(path, part)
            os.makedirs(path, exist_ok=True)
            open(os.path.join(path, "__init__.py"), "a").close()
        with open(os.path.join(path, name.rsplit(".", 1)[1] + ".py"), "w") as f:
            f.write(STAND_IN)


def main(package, version, digest, target):
    work = tempfile.mkdtemp(dir=os.path.dirname(target))
    stubs, out = os.path.join(work, "stubs"), os.path.join(work, "out")
    stand_ins(stubs)
    wanted = os.path.join(work, "requirements.txt")
    with open(wanted, "w") as f:
        f.write("%s==%s" % (package, version) + (" --hash=sha256:%s\n" % digest if digest != "-" else "\n"))
    code = subprocess.call(
        [sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check",
         "--no-cache-dir", "--progress-bar", "off", "--retries", "1", "--timeout", "15",
         "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--use-pep517",
         *(["--require-hashes"] if digest != "-" else []), "-r", wanted, "-d", out],
        env=dict(os.environ, PYTHONPATH=stubs, PYTHONDONTWRITEBYTECODE="1", TMPDIR=work),
        stdin=subprocess.DEVNULL)
    if code:
        return code
    files = os.listdir(out)
    if len(files) != 1:
        print("pip left %d files" % len(files), file=sys.stderr)
        return 1
    shutil.move(os.path.join(out, files[0]), target)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
