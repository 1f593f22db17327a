CREATE TABLE public.foldline_checkpoints (
    place bigint NOT NULL,
    thread text NOT NULL,
    namespace text NOT NULL,
    id text NOT NULL,
    parent text,
    body text NOT NULL,
    added_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE public.foldline_checkpoints ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.foldline_checkpoints_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.foldline_items (
    namespace text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL,
    value text NOT NULL,
    created_at text NOT NULL,
    updated_at text NOT NULL,
    until text,
    vectors text,
    ttl double precision
);
CREATE TABLE public.foldline_messages (
    place bigint NOT NULL,
    session text NOT NULL,
    value text NOT NULL,
    added_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE public.foldline_messages ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.foldline_messages_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO public.foldline_checkpoints OVERRIDING SYSTEM VALUE VALUES (1, 't-1', '', '01a1ec66-3e8a-75d7-8b15-fa7ebf916a83', NULL, '{"v":1,"kind":"input","step":0,"at":"2026-11-18T02:04:46.090186+00:00","next":"model","values":{"messages":[{"lc":1,"type":"constructor","id":["foldline","messages","HumanMessage"],"kwargs":{"content":"How is the weather?","type":"human","id":"01a1ec66-3e8a-7173-afd4-b85f137c1550"}}]}}', '2026-11-18 02:04:46.090483+00');
INSERT INTO public.foldline_checkpoints OVERRIDING SYSTEM VALUE VALUES (2, 't-1', '', '01a1ec66-3e94-7f7d-9899-485cd2fcc7ac', '01a1ec66-3e8a-75d7-8b15-fa7ebf916a83', '{"v":1,"kind":"node","step":1,"at":"2026-11-18T02:04:46.100740+00:00","node":"model","next":"__end__","values":{"messages":[{"lc":1,"type":"constructor","id":["foldline","messages","AIMessage"],"kwargs":{"content":"It is sunny.","type":"ai","id":"lc_run--01a1ec66-3e94-77c4-ac48-134319aecc0c-0","tool_calls":[],"invalid_tool_calls":[]}}]}}', '2026-11-18 02:04:46.101187+00');
INSERT INTO public.foldline_checkpoints OVERRIDING SYSTEM VALUE VALUES (3, 'raw', '', '1', NULL, '{}', '2026-11-18 02:04:46.102287+00');
INSERT INTO public.foldline_checkpoints OVERRIDING SYSTEM VALUE VALUES (4, 'raw', '', '2', '1', '{}', '2026-11-18 02:04:46.102287+00');
INSERT INTO public.foldline_items VALUES ('usersada', 'likes', '{"food": "plums"}', '2026-11-18T02:04:46.154967+00:00', '2026-11-18T02:04:46.154967+00:00', NULL, NULL, NULL);
INSERT INTO public.foldline_messages OVERRIDING SYSTEM VALUE VALUES (1, 'ada', '{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Hello", "type": "human"}}', '2026-11-18 02:04:45.019486+00');
INSERT INTO public.foldline_messages OVERRIDING SYSTEM VALUE VALUES (2, 'ada', '{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "AIMessage"], "kwargs": {"content": "Hi, Ada.", "type": "ai", "tool_calls": [], "invalid_tool_calls": []}}', '2026-11-18 02:04:45.019486+00');
INSERT INTO public.foldline_messages OVERRIDING SYSTEM VALUE VALUES (3, 'bob', '{"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"], "kwargs": {"content": "Bye", "type": "human"}}', '2026-11-18 02:04:45.054823+00');
SELECT pg_catalog.setval('public.foldline_checkpoints_place_seq', 4, true);
SELECT pg_catalog.setval('public.foldline_messages_place_seq', 3, true);
ALTER TABLE ONLY public.foldline_checkpoints
    ADD CONSTRAINT foldline_checkpoints_pkey PRIMARY KEY (place);
ALTER TABLE ONLY public.foldline_items
    ADD CONSTRAINT foldline_items_pkey PRIMARY KEY (namespace, key);
ALTER TABLE ONLY public.foldline_messages
    ADD CONSTRAINT foldline_messages_pkey PRIMARY KEY (place);
CREATE INDEX foldline_checkpoints_by_thread ON public.foldline_checkpoints USING btree (thread, namespace, place);
CREATE INDEX foldline_messages_by_session ON public.foldline_messages USING btree (session, place);
