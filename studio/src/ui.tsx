// Small parts that every screen uses.
import { type ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./api";

export const go = (hash: string): void => void (location.hash = hash);

/** Loads something and keeps it; `reload` does it again without emptying the screen. */
export function useLoaded<T>(load: () => Promise<T>, depends: unknown[]) {
  const [state, setState] = useState<{ value?: T; error?: string; isLoading: boolean }>({ isLoading: true });
  const latest = useRef(0);
  const reload = useCallback(() => {
    const turn = ++latest.current;
    setState((before) => ({ ...before, isLoading: true }));
    load().then(
      (value) => turn === latest.current && setState({ value, isLoading: false }),
      (error) => turn === latest.current && setState({ error: errorText(error), isLoading: false }),
    );
  }, depends);
  useEffect(() => {
    setState({ isLoading: true });
    reload();
  }, depends);
  return { ...state, reload };
}

export const errorText = (error: unknown): string =>
  error instanceof ApiError && error.status === 401
    ? "The studio was started anew: open the address that it printed."
    : error instanceof Error
      ? error.message
      : String(error);

export function Trouble({ error }: { error?: string }) {
  return error ? <p class="trouble" role="alert">{error}</p> : null;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function Tabs<T extends string>(props: { names: readonly T[]; chosen: T; choose: (name: T) => void; label: string }) {
  return (
    <div class="tabs" role="tablist" aria-label={props.label}>
      {props.names.map((name) => (
        <button type="button" role="tab" aria-selected={name === props.chosen} onClick={() => props.choose(name)}>
          {name}
        </button>
      ))}
    </div>
  );
}

export function CopyButton({ text }: { text: () => string }) {
  const [label, setLabel] = useState("Copy");
  return (
    <button type="button" class="quiet" onClick={() => navigator.clipboard.writeText(text()).then(() => setLabel("Copied"), () => setLabel("Not allowed"))}>
      {label}
    </button>
  );
}

export function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function Confirm({ label, ask, action }: { label: string; ask: string; action: () => void }) {
  const [isAsking, setAsking] = useState(false);
  return isAsking ? (
    <span class="confirm">
      {ask} <button type="button" class="danger" onClick={action}>{label}</button>{" "}
      <button type="button" class="quiet" onClick={() => setAsking(false)}>Keep</button>
    </span>
  ) : (
    <button type="button" class="quiet" onClick={() => setAsking(true)}>{label}</button>
  );
}
