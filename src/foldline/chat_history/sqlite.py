"""`SQLiteChatMessageHistory`: conversations in one SQLite file; appends are atomic and survive a killed process."""

from __future__ import annotations

from pathlib import Path

from foldline.chat_history._table import TableChatMessageHistory

__all__ = ["SQLiteChatMessageHistory"]


class SQLiteChatMessageHistory(TableChatMessageHistory):
    """One conversation in a SQLite file.

    ```python
    import tempfile
    from foldline.chat_history import SQLiteChatMessageHistory

    path = tempfile.mkdtemp() + "/chats.db"
    SQLiteChatMessageHistory("ada", path).add_user_message("hi")
    print(SQLiteChatMessageHistory("ada", path).messages[0].text)
    #> hi
    ```
    """

    def __init__(self, session_id: str, path: str | Path = "foldline-chats.db") -> None:
        """Open a conversation in a file, made where it is not there."""
        super().__init__(session_id, path)
