BEGIN TRANSACTION;
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('history',1);
CREATE TABLE messages (
        place INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, value TEXT NOT NULL, added_at REAL NOT NULL
    ) STRICT;
INSERT INTO "messages" VALUES(1,'ada','{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Hello", "type": "human"}}',1.79496747982583260538e+09);
INSERT INTO "messages" VALUES(2,'ada','{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Hi, Ada.", "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}',1.79496747982583260538e+09);
INSERT INTO "messages" VALUES(3,'bob','{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Bye", "type": "human"}}',1.79496747982960605624e+09);
CREATE INDEX messages_by_session ON messages (session, place)
    ;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('messages',3);
COMMIT;
