"""Words: a fixed set of strings, each an object of its own and equal to its spelling.

A type checker and a reader see `enum.StrEnum`; defining a set takes a tenth of the time
(docs/decisions/0010-records.md).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from enum import StrEnum

    class Words(StrEnum):
        """Base of every set of words; ValueError for one that the set does not have."""

else:

    class _Set(type):
        """Makes the texts of a class body its words, in their order."""

        def __new__(cls, name, bases, body):
            spelled = {
                key: body.pop(key)
                for key in tuple(body)
                if isinstance(body[key], str) and not key.startswith("_")
            }
            words = super().__new__(cls, name, bases, body | {"__slots__": ("name",)})
            words.__spelled__ = {}
            for key, spelling in spelled.items():
                word = str.__new__(words, spelling)
                word.name = key
                setattr(words, key, word)
                words.__spelled__[spelling] = word
            return words

        def __iter__(cls):
            return iter(cls.__spelled__.values())

        def __contains__(cls, spelling):
            return spelling in cls.__spelled__

        def __len__(cls):
            return len(cls.__spelled__)

    class Words(str, metaclass=_Set):
        """Base of every set of words; ValueError for one that the set does not have."""

        def __new__(cls, spelling):
            try:
                return cls.__spelled__[spelling]
            except (KeyError, TypeError):
                raise ValueError(f"{spelling!r} is not a valid {cls.__qualname__}") from None

        @property
        def value(self):
            return str(self)

        def __repr__(self):
            return f"<{type(self).__qualname__}.{self.name}: {str(self)!r}>"
