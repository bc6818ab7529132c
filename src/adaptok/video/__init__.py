"""Files to frames to blocks, and back. Start with `reader.py`; then `clips.py`, `writer.py`, `compare.py`."""

from adaptok.video.clips import FrameBlock, centre_cropped, in_blocks, stretched, to_images, to_video
from adaptok.video.compare import ComparisonWriter, side_by_side, token_bars
from adaptok.video.frame import Frame, Image, Marks, VideoError, VideoInfo, VideoReader
from adaptok.video.output import OutputError, whole_file, whole_folder
from adaptok.video.reader import images_at, open_video
from adaptok.video.writer import VideoWriter, create_video

__all__ = [
    "ComparisonWriter",
    "Frame",
    "FrameBlock",
    "Image",
    "Marks",
    "OutputError",
    "VideoError",
    "VideoInfo",
    "VideoReader",
    "VideoWriter",
    "centre_cropped",
    "create_video",
    "images_at",
    "in_blocks",
    "open_video",
    "side_by_side",
    "stretched",
    "to_images",
    "to_video",
    "token_bars",
    "whole_file",
    "whole_folder",
]
