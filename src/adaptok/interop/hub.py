"""From a folder or a Hugging Face hub id to a local folder of JSON and safetensors; nothing else is fetched."""

import re
from pathlib import Path

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def fetch_folder(folder_or_hub_id: str | Path) -> Path:
    """The folder itself, or a local copy of the hub repository's JSON and safetensors files."""
    folder = Path(folder_or_hub_id)
    if folder.is_dir():
        return folder
    if not _HUB_ID.fullmatch(str(folder_or_hub_id)):
        raise ValueError(f"{folder_or_hub_id} is neither a folder nor a hub id of the form owner/name")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise ValueError(
            f"{folder_or_hub_id} is not a folder; to fetch it from the hub, pip install 'adaptok[hub]'"
        ) from None
    try:
        return Path(snapshot_download(str(folder_or_hub_id), allow_patterns=["*.json", "*.safetensors"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{folder_or_hub_id} is not a folder and the hub did not give it: {reason}") from None
