"""What can go wrong with a token stream; every reader and writer of this folder raises these.

`StreamError` is for users: one line that names the value and the limit. The other two never leave this folder: they
tell the reader whether to say "cut short" or "damaged".
"""


class StreamError(ValueError):
    """A token stream that cannot be read or written as asked."""


class CutShort(StreamError):
    """The bytes end before the header or the record does."""


class Damaged(StreamError):
    """A record's bytes are all there but are not what was written."""
