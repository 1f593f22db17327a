// The frame: navigation, theme, and which screen the address names.
import { render, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "./api";
import { Compare } from "./compare";
import { when, whole } from "./format";
import { Datasets } from "./datasets";
import { Playground } from "./playground";
import { Sessions } from "./sessions";
import "./style.css";
import { TraceScreen } from "./trace";
import { Traces } from "./traces";
import { Trouble } from "./ui";

const SCREENS = [
  ["traces", "Traces"],
  ["charts", "Charts"],
  ["playground", "Playground"],
  ["sessions", "Sessions"],
  ["datasets", "Datasets"],
] as const;
const THEMES = ["auto", "light", "dark"] as const;

interface Info {
  version: string;
  file: string;
  is_there: boolean;
  problem: string | null;
  lost: { runs: number; last: number } | null;
  apps: string[];
}

/** A part of the address; one that somebody cut in the middle of a character stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function useHash(): string[] {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    changed(); // the address may have changed since the first drawing, before anything listened
    return () => removeEventListener("hashchange", changed);
  }, []);
  const parts = hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  return parts.length ? parts : ["traces"];
}

/** The charts bring a library of their own, which the other screens need not wait for. */
function Charts() {
  const [Screen, setScreen] = useState<ComponentType>();
  const [error, setError] = useState<string>();
  useEffect(() => {
    import("./charts").then((module) => setScreen(() => module.Charts), (problem) => setError(String(problem)));
  }, []);
  return Screen ? <Screen /> : <section><Trouble error={error} /></section>;
}

/** A function of the theme before: two quick clicks are two steps, drawn in between or not. */
const nextTheme = (theme: string) => THEMES[(THEMES.indexOf(theme as (typeof THEMES)[number]) + 1) % 3];

function App() {
  const [screen, ...rest] = useHash();
  const [theme, setTheme] = useState<string>(() => localStorage.getItem("theme") ?? "auto");
  const [info, setInfo] = useState<Info>();
  const [error, setError] = useState<string>();
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  useEffect(() => {
    get<Info>("info").then(setInfo, (problem) => setError(problem.message));
  }, []);
  useEffect(() => {
    document.title = `${SCREENS.find(([name]) => name === screen)?.[1] ?? "Traces"} · foldline studio`;
  }, [screen]);
  const active = screen === "compare" ? "traces" : screen === "threads" ? "sessions" : screen;
  return (
    <div class="frame">
      <a class="skip" href={`#/${screen}`} onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main")?.focus(); }}>Skip to content</a>
      <nav aria-label="Screens">
        <span class="brand"><i aria-hidden="true" />foldline <b>studio</b></span>
        {SCREENS.map(([name, label]) => (
          <a href={`#/${name}`} aria-current={active === name ? "page" : undefined}>{label}</a>
        ))}
        <span class="spring" />
        <button type="button" class="quiet theme" title="Colours" onClick={() => setTheme(nextTheme)}>
          {theme === "auto" ? "◐ auto" : theme === "light" ? "○ light" : "● dark"}
        </button>
        <span class="version dim">{info?.version}</span>
      </nav>
      <main tabIndex={-1}>
        <Trouble error={error} />
        <Trouble error={info?.problem ?? undefined} />
        {info?.lost && active === "traces" && <p class="lost" role="status">{whole(info.lost.runs)} {info.lost.runs === 1 ? "run" : "runs"} could not be written, the last {when(info.lost.last)}: the traces of that time are incomplete.</p>}
        {active === "traces" && screen === "compare" ? (
          <Compare first={rest[0]} second={rest[1]} />
        ) : screen === "charts" ? (
          <Charts />
        ) : screen === "playground" ? (
          <Playground />
        ) : active === "sessions" ? (
          <Sessions kind={screen} place={rest} apps={info?.apps ?? []} />
        ) : screen === "datasets" ? (
          <Datasets name={rest[0]} />
        ) : rest[0] ? (
          <TraceScreen key={rest[0]} id={rest[0]} run={rest[1]} />
        ) : (
          <Traces file={info?.file ?? ""} />
        )}
      </main>
    </div>
  );
}

render(<App />, document.getElementById("app")!);
