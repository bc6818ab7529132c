"""The token stream: blocks to bytes and back. Start with `block.py`; then `records.py`, `writer.py`, `reader.py`."""

from adaptok.stream.block import Block, CodedBlock, TokenBlock, same_block
from adaptok.stream.errors import StreamError
from adaptok.stream.files import append_tokens, create_tokens, open_tokens
from adaptok.stream.header import StreamHeader
from adaptok.stream.reader import TokenReader
from adaptok.stream.records import max_payload
from adaptok.stream.writer import TokenWriter

__all__ = [
    "Block",
    "CodedBlock",
    "StreamError",
    "StreamHeader",
    "TokenBlock",
    "TokenReader",
    "TokenWriter",
    "append_tokens",
    "create_tokens",
    "max_payload",
    "open_tokens",
    "same_block",
]
