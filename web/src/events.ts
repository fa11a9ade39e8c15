// The events of the node, for all tabs of a browser: one tab, which is shown, has the connection.

/** A change of state of an object. */
export interface Change {
  entity: string;
  id: string;
}

/** What learns of changes. */
export interface Follower {
  /** An object has changed. */
  change(change: Change): void;
  /** Changes may have been missed. */
  catchUp(): void;
}

/** Kinds of objects that pages show. */
const KINDS = [
  ...["statement", "session", "stream", "materialized_view"],
  ...["job", "job_change", "savepoint", "node"],
];
/** Milliseconds between two polls of a page that has no events. */
const POLL = 5_000;
/** Milliseconds after which a connection that the node has refused is tried again. */
const RETRY = 30_000;

/**
 * Tell a follower of changes while the page is shown.
 *
 * Browsers allow six connections to a host by HTTP/1.1. The tabs elect one of them by a lock, and it
 * passes the events on. A page without locks, which needs HTTPS or localhost, polls.
 */
export function followEvents(root: URL, follower: Follower): void {
  const feed = new Feed(root, follower);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      feed.stop();
    } else {
      follower.catchUp();
      feed.start();
    }
  });
  if (!document.hidden) {
    feed.start();
  }
}

class Feed {
  private readonly name: string;
  private readonly channel: BroadcastChannel;
  private stopping: AbortController | null = null;
  private poll = 0;

  constructor(
    private readonly root: URL,
    private readonly follower: Follower,
  ) {
    this.name = `headrace ${root.pathname}`;
    this.channel = new BroadcastChannel(this.name);
    this.channel.onmessage = (message: MessageEvent<Change | null>) => this.receive(message.data);
  }

  /** Begin to follow. */
  start(): void {
    this.stop();
    if (!navigator.locks) {
      this.poll = window.setInterval(() => this.follower.catchUp(), POLL);
      return;
    }
    const stopping = new AbortController();
    this.stopping = stopping;
    const lead = () => this.lead(stopping.signal);
    navigator.locks.request(this.name, { signal: stopping.signal }, lead).catch(() => {
      // The page was hidden before it had the lock.
    });
  }

  /** Follow no longer. Another tab may take the connection over. */
  stop(): void {
    this.stopping?.abort();
    this.stopping = null;
    this.endPoll();
  }

  private endPoll(): void {
    window.clearInterval(this.poll);
    this.poll = 0;
  }

  private receive(change: Change | null): void {
    if (document.hidden) {
      return;
    }
    if (change) {
      this.follower.change(change);
    } else {
      this.follower.catchUp();
    }
  }

  private send(change: Change | null): void {
    this.channel.postMessage(change);
    this.receive(change);
  }

  /** Keep the connection until the signal. */
  private lead(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      let source: EventSource;
      let retry = 0;
      const connect = () => {
        source = new EventSource(new URL("events", this.root));
        source.onopen = () => {
          this.endPoll();
          this.send(null);
        };
        for (const kind of KINDS) {
          source.addEventListener(kind, (event: MessageEvent<string>) => {
            this.send({ entity: kind, id: JSON.parse(event.data).entity_id });
          });
        }
        source.onerror = () => {
          this.poll ||= window.setInterval(() => this.send(null), POLL);
          // The browser connects again by itself, unless the node has refused it.
          if (source.readyState === EventSource.CLOSED) {
            retry = window.setTimeout(connect, RETRY);
          }
        };
      };
      connect();
      signal.addEventListener("abort", () => {
        window.clearTimeout(retry);
        source.close();
        resolve();
      });
    });
  }
}
