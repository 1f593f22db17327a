BEGIN TRANSACTION;
CREATE TABLE checkpoints (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        thread TEXT NOT NULL,
        namespace TEXT NOT NULL,
        id TEXT NOT NULL,
        parent TEXT,
        body TEXT NOT NULL,
        added_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
    );
INSERT INTO "checkpoints" VALUES(1,'t-1','','01a1ec66-2a31-78c7-9d73-c8ac75fe717f',NULL,'{"v":1,"kind":"input","step":0,"at":"2026-11-18T02:04:40.881313+00:00","next":"model","values":{"messages":[{"lc":1,"type":"constructor","id":["foldline","messages","HumanMessage"],"kwargs":{"content":"How is the weather?","type":"human","id":"01a1ec66-2a31-72c2-b532-2cfbb3e1f7ab"}}]}}','2026-11-18 02:04:40');
INSERT INTO "checkpoints" VALUES(2,'t-1','','01a1ec66-2a3b-7d72-8a20-8937e824cb49','01a1ec66-2a31-78c7-9d73-c8ac75fe717f','{"v":1,"kind":"node","step":1,"at":"2026-11-18T02:04:40.891638+00:00","node":"model","next":"__end__","values":{"messages":[{"lc":1,"type":"constructor","id":["foldline","messages","AIMessage"],"kwargs":{"content":"It is sunny.","type":"ai","id":"lc_run--01a1ec66-2a3b-77c0-b645-aaf6180c462a-0","tool_calls":[],"invalid_tool_calls":[]}}]}}','2026-11-18 02:04:40');
INSERT INTO "checkpoints" VALUES(3,'raw','','1',NULL,'{}','2026-11-18 02:04:40');
INSERT INTO "checkpoints" VALUES(4,'raw','','2','1','{}','2026-11-18 02:04:40');
CREATE TABLE foldline_schema (kind TEXT PRIMARY KEY, version INTEGER NOT NULL);
INSERT INTO "foldline_schema" VALUES('checkpoints',1);
CREATE INDEX checkpoints_by_thread ON checkpoints (thread, namespace, place)
    ;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('checkpoints',4);
COMMIT;
