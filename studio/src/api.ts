// The studio's JSON API, and the types of what it answers.

export interface Trace {
  id: string;
  name: string;
  run_type: string;
  start_time: number;
  end_time: number | null;
  first_token_time: number | null;
  models: string[];
  runs: number;
  calls: number;
  input_tokens: number | null;
  output_tokens: number | null;
  cost: number | null;
  session_id: string | null;
  thread_id: string | null;
  user_id: string | null;
  question: string | null;
  answer: string | null;
  error_class: string | null;
  error: string | null;
  failed_runs: number;
  status: "running" | "done" | "failed" | "waiting" | "answered";
  asks: string | null;
  incomplete: boolean;
  scores: Record<string, number>;
  seconds: number | null;
}

export interface Score {
  id: string;
  name: string;
  value: number | null;
  comment: string | null;
  author: string | null;
}

export interface Run {
  id: string;
  trace_id: string;
  parent_id: string | null;
  depth: number;
  name: string;
  run_type: string;
  start_time: number;
  end_time: number | null;
  first_token_time: number | null;
  provider: string | null;
  model: string | null;
  input_tokens: number | null;
  output_tokens: number | null;
  cost: number | null;
  question: string | null;
  answer: string | null;
  error_class: string | null;
  status: "waiting" | null;
  interrupts: { id: string | null; value: unknown }[] | null;
  incomplete: boolean;
  scores: Score[];
}

export type Block =
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  | { type: "tool_call"; id: string | null; name: string; args: unknown }
  | { type: "image"; source: string }
  | { type: "json"; value: unknown };

export interface Message {
  role: string;
  blocks: Block[];
  id?: string;
  name?: string;
  tool_call_id?: string;
  status?: string;
  finish_reason?: string;
}

export interface RunContent extends Run {
  messages: Message[];
  answers: Message[];
  inputs: unknown;
  outputs: unknown;
  extra: Record<string, unknown>;
  request: unknown;
  serialized: unknown;
  events: unknown[];
  usage: Record<string, unknown> | null;
  error: string | null;
  tags: string[];
}

export interface Figure {
  time: number;
  calls: number;
  errors: number;
  input_tokens: number;
  output_tokens: number;
  cost: number | null;
  unpriced: number;
  p50: number | null;
  p95: number | null;
  first_p50: number | null;
  first_p95: number | null;
}

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

async function refuse(response: Response): Promise<never> {
  let words = `${response.status} ${response.statusText}`;
  try {
    words = (await response.json()).error ?? words;
  } catch {
    // no JSON: the status says enough
  }
  throw new ApiError(words, response.status);
}

export async function get<T>(path: string, query: Record<string, string | number | undefined> = {}): Promise<T> {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== "") search.set(key, `${value}`);
  const tail = search.size ? `?${search}` : "";
  const response = await fetch(`./api/${path}${tail}`, { credentials: "same-origin" });
  return response.ok ? response.json() : refuse(response);
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const response = await fetch(`./api/${path}`, {
    method,
    credentials: "same-origin",
    headers: { "x-foldline-studio": "1", "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  return response.ok ? response : refuse(response);
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return (await send("POST", path, body)).json();
}

export async function postText(path: string, body: unknown): Promise<string> {
  return (await send("POST", path, body)).text();
}

export async function remove(path: string): Promise<void> {
  await send("DELETE", path);
}

/** Posts, and yields the server-sent events of the answer. */
export async function* postEvents(
  path: string,
  body: unknown,
  signal: AbortSignal,
): AsyncGenerator<{ name: string; data: any }> {
  const response = await send("POST", path, body, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n\n");
    rest = pieces.pop()!;
    for (const piece of pieces) {
      const name = /^event: (.*)$/m.exec(piece)?.[1];
      const data = /^data: (.*)$/m.exec(piece)?.[1];
      if (name && data !== undefined) yield { name, data: JSON.parse(data) };
    }
  }
}
