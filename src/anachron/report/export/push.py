"""Sends an exported data set to the Hugging Face hub, by its own client."""

from pathlib import Path

from anachron.core.errors import BackendError, ConfigError, first_line
from anachron.io.files import Json
from anachron.report.export.folder import MANIFEST


def check_push(name: str, licence: str | None) -> None:
    """Raise `ConfigError` for a name that the hub does not take, and where no licence is stated."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(f"--push {name!r}: write OWNER/NAME as on the hub ({first_line(error)})") from error
    if name.count("/") != 1:
        raise ConfigError(f"--push {name!r}: write OWNER/NAME as on the hub")
    if licence is None:
        raise ConfigError("the card states no licence; name the data's with --licence before it is sent anywhere")


def files_to_push(folder: Path, manifest: Json, name: str) -> dict[str, int]:
    """The files of an export that `push` sends, with their sizes in bytes.

    manifest: of `anachron.report.export.hub.export_hub`. Raises as `check_push`.
    """
    check_push(name, manifest["parameters"]["licence"])
    return {file: (folder / file).stat().st_size for file in (*manifest["files"], MANIFEST)}


def push(folder: Path, manifest: Json, name: str) -> str:
    """Send the files of an export to a data set of the hub, as one commit; returns the commit's address.

    A data set that is not there yet is made, private. The token is that of ``hf auth login`` or ``HF_TOKEN``.

    Raises `ConfigError` as `files_to_push`, and `BackendError` where the hub refuses or cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import LocalTokenNotFoundError

    files = files_to_push(folder, manifest, name)
    api = HfApi()
    try:
        api.create_repo(name, repo_type="dataset", private=True, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name, repo_type="dataset", folder_path=folder, allow_patterns=list(files),
            commit_message=f"Data set with fingerprint {next(iter(manifest['inputs'].values()))}",
        )  # fmt: skip
    except LocalTokenNotFoundError as error:
        raise BackendError("the hub asks who you are; run hf auth login, or set HF_TOKEN") from error
    except Exception as error:  # its client raises many classes; all mean the same to a user
        raise BackendError(f"{name}: the hub did not take the data set ({first_line(error)})") from error
    return str(commit.commit_url)
