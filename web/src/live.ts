// The region of a page that follows its objects. It is fetched again from the address that its
// element names, when an event says that one of its objects has changed.
import htmx from "htmx.org";
import type { Change, Follower } from "./events";

/** Milliseconds for which requests fail before the page says so. */
const SILENCE = 8_000;
/** Seconds between two requests of a page that has no good answer. */
const RETRY = 5;
/** Milliseconds between two looks at whether a refresh that waits may run. */
const LOOK = 400;
/** What must not move while the pointer is over it. */
const TARGETS = ":is(a, button, summary, select, input, textarea, label):hover";

/** The element with the id `live`, whose `data-live` names the kinds of its objects. */
export class LiveRegion implements Follower {
  private isWanted = false;
  /** When the refresh that is wanted may start at the earliest, in milliseconds. */
  private dueAt = 0;
  private isPaused = false;
  private isPressed = false;
  private isGone = false;
  private shown = "";
  private readonly openedAt = Date.now();
  private startedAt = 0;
  private updatedAt = Date.now();
  private failedSince = 0;
  private readonly build: string | undefined;

  constructor(element: HTMLElement) {
    this.build = element.dataset.build;
    document.addEventListener("pointerdown", (event) => {
      this.isPressed = (event.target as Element).closest("#live") !== null;
    });
    for (const end of ["pointerup", "pointercancel"]) {
      // The click follows the end of the press.
      window.addEventListener(end, () => window.setTimeout(() => this.release()));
    }
    document.addEventListener("htmx:before:request", (event) => this.name(event));
    document.addEventListener("htmx:before:swap", (event) => this.check(event));
    document.addEventListener("htmx:after:swap", () => this.succeed());
    document.addEventListener("headrace:show", (event) => {
      void this.replace((event as CustomEvent<string>).detail);
    });
    document.addEventListener("htmx:error", () => this.fail());
    this.addPause();
    window.setInterval(() => this.look(Date.now()), LOOK);
  }

  change(change: Change): void {
    const { live = "", liveId } = this.element.dataset;
    if (live.split(" ").includes(change.entity) && (liveId ?? change.id) === change.id) {
      this.want(Math.random());
    }
  }

  catchUp(): void {
    this.want(0);
  }

  /**
   * Ask for a refresh. The pages that learn of the same event are spread over the pause, which is
   * longer the more pages are open.
   *
   * @param part Part of the pause by which this page waits.
   */
  private want(part: number): void {
    if (!this.isWanted) {
      this.isWanted = true;
      this.dueAt = Math.max(Date.now() + part * this.pause, this.startedAt + this.pause);
    }
  }

  /** Shortest time between two refreshes, in milliseconds. */
  private get pause(): number {
    const seconds = Number(this.element.dataset.liveSeconds ?? "3");
    return 1000 * (this.failedSince ? Math.max(seconds, RETRY) : seconds);
  }

  /** The element. A refresh may replace it. */
  private get element(): HTMLElement {
    return document.getElementById("live") as HTMLElement;
  }

  private look(now: number): void {
    if (document.hidden) {
      return;
    }
    this.showAge(now);
    if (!this.element.dataset.live) {
      return; // the editor shows no statement yet
    }
    const { liveEvery } = this.element.dataset;
    const looked = Math.max(this.startedAt, this.openedAt);
    // The batches of a stream, and what a driver counts after the end of a statement, have no events.
    if (liveEvery !== undefined && now - looked >= 1000 * Number(liveEvery)) {
      this.want(0);
    }
    if (this.isWanted && !this.isPaused && !this.isGone && now >= this.dueAt && !this.isInUse()) {
      this.isWanted = false;
      this.startedAt = now;
      htmx.trigger(this.element, "refresh");
    }
  }

  /** Return whether the user points at, types into, or selects a part of the region. */
  private isInUse(): boolean {
    const element = this.element;
    const focused = document.activeElement;
    const selection = document.getSelection();
    return (
      this.isPressed ||
      element.querySelector(TARGETS) !== null ||
      element.querySelector("[aria-selected]") !== null ||
      (element.contains(focused) && focused?.matches("input, select, textarea") === true) ||
      (selection !== null && !selection.isCollapsed && selection.containsNode(element, true))
    );
  }

  private release(): void {
    this.isPressed = false;
  }

  /** Let a refresh name what the page shows: the answer to one that changes nothing is 304. */
  private name(event: Event): void {
    const { request, sourceElement } = (event as CustomEvent).detail.ctx;
    const { shown } = this.element.dataset;
    if (sourceElement === this.element && shown) {
      request.headers["If-None-Match"] = `"${shown}"`;
    }
  }

  private check(event: Event): void {
    const { response, sourceElement } = (event as CustomEvent).detail.ctx;
    const { status, raw } = response;
    if (raw.redirected && isSignIn(raw)) {
      // The sign-in has ended. The whole page leads to the form, and back to this page.
      event.preventDefault();
      leave();
      return;
    }
    if (status === 403 || status === 404) {
      event.preventDefault();
      this.isGone = true;
      show("silence", "The object of this page is not kept any more, or is not yours to read.");
      return;
    }
    if (status === 304) {
      return; // htmx swaps nothing
    }
    // The user may have begun to use the region since the request. An error page replaces nothing.
    const isRefresh = sourceElement === this.element;
    if (status >= 400 || (isRefresh && this.isInUse())) {
      event.preventDefault();
      this.want(0);
    }
    if (status >= 400) {
      this.fail();
    }
  }

  /** Show the region of another page in place of this one. The newest call wins. */
  private async replace(link: string): Promise<void> {
    this.shown = link;
    const response = await fetch(link).catch(() => null);
    if (this.shown !== link) {
      return;
    }
    if (response?.redirected && isSignIn(response)) {
      leave();
    } else if (response?.ok) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const region = page.getElementById("live");
      if (region && this.shown === link) {
        this.element.replaceWith(document.adoptNode(region));
        htmx.process(this.element);
        this.isGone = false;
        this.catchUp();
      }
    }
  }

  private succeed(): void {
    this.updatedAt = Date.now();
    this.failedSince = 0;
    if (this.element.dataset.build !== this.build) {
      show("new-version", "The node has a new version. Load the page again.");
    }
  }

  private fail(): void {
    this.failedSince ||= Date.now();
    this.want(0);
  }

  private addPause(): void {
    const button = document.getElementById("pause");
    button?.addEventListener("click", () => {
      this.isPaused = !this.isPaused;
      button.textContent = this.isPaused ? "Continue" : "Pause";
    });
    button?.removeAttribute("hidden");
  }

  private showAge(now: number): void {
    show("age", `Updated ${Math.floor((now - this.updatedAt) / 1000)} s ago.`);
    if (this.isGone) {
      return;
    }
    const isSilent = this.failedSince > 0 && now - this.failedSince >= SILENCE;
    document.documentElement.classList.toggle("stale", isSilent);
    const since = new Date(this.updatedAt).toISOString().slice(11, 19);
    const text = `No answer since ${since} UTC. The page shows what was true then.`;
    show("silence", isSilent ? text : "");
  }
}

/** Load the page again, which leads to the sign-in and back, unless something on it still runs. */
function leave(): void {
  if (document.dispatchEvent(new Event("headrace:leave", { cancelable: true }))) {
    location.reload();
  }
}

function isSignIn(response: Response): boolean {
  return new URL(response.url).pathname.endsWith("/sign-in");
}

function show(id: string, text: string): void {
  const element = document.getElementById(id);
  if (element && element.textContent !== text) {
    element.textContent = text;
    element.hidden = text === "";
  }
}
