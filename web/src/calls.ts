// The calls of the editor: they outlive failures of the network, and a sign-in that ends.

/** The node refuses what the editor has sent. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly line: number | null = null,
    readonly column: number | null = null,
  ) {
    super(message);
  }

  /** Whether the node refuses the same call again. A node that fails or is busy does not. */
  get isFinal(): boolean {
    return this.status >= 400 && this.status < 500 && this.status !== 429;
  }
}

/** Name of the channel on which every page says that its user is signed in. */
export function signInChannel(): BroadcastChannel {
  const { root = "./" } = document.documentElement.dataset;
  return new BroadcastChannel(`headrace signed-in ${new URL(root, location.href).pathname}`);
}

interface CallOptions {
  method?: string;
  headers?: Record<string, string>;
  /** Ends the wait for a sign-in. */
  stop?: AbortSignal;
}

/** Largest body of a call that the browser finishes when the page is left. */
const KEPT = 60_000;

export class Calls {
  /** The connection of the editor; empty: it has none yet. */
  connection: string;
  /** Settled when it is known whether another tab holds the connection of the draft. */
  readonly hasConnection: Promise<void>;
  /** Whether another tab holds the connection of the draft, so that this one opens its own. */
  isHeldElsewhere = false;
  private readonly notice = document.getElementById("signed-out") as HTMLElement;

  constructor(private readonly form: HTMLFormElement) {
    this.connection = form.dataset.connection ?? "";
    this.hasConnection = this.connection ? this.claim() : Promise.resolve();
    // A refresh of the results must not load the page again: its text would be lost.
    document.addEventListener("headrace:leave", (event) => {
      event.preventDefault();
      this.waitForSignIn().catch(() => {});
    });
  }

  /** Take over a connection that the node has opened for this editor. */
  adopt(connection: string): void {
    if (connection !== this.connection) {
      this.connection = connection;
      void hold(connection);
    }
  }

  private async claim(): Promise<void> {
    this.isHeldElsewhere = !(await hold(this.connection));
    if (this.isHeldElsewhere) {
      this.connection = "";
    }
  }

  /** Send a form. Where the sign-in has ended, wait until the user has signed in again. */
  send(link: string, fields: Record<string, string>, options: CallOptions = {}): Promise<Response> {
    const attempt = () => {
      const body = new URLSearchParams({
        ...fields,
        connection: this.connection,
        form_token: this.token,
      });
      const headers = { Accept: "application/json", ...options.headers };
      const keepalive = body.toString().length < KEPT;
      return fetch(link, { method: options.method ?? "POST", body, headers, keepalive });
    };
    return this.call(attempt, options.stop);
  }

  private get token(): string {
    return this.form.querySelector<HTMLInputElement>("[name=form_token]")?.value ?? "";
  }

  /** Send a form, and return the body of the answer. */
  async post(link: string, fields: Record<string, string> = {}): Promise<unknown> {
    return this.read(await this.send(link, fields));
  }

  /** Fetch a link, also after the user has signed in again. */
  get(link: string, stop?: AbortSignal): Promise<Response> {
    return this.call(() => fetch(link), stop);
  }

  /** Return the body of an answer. Raise an Error for any other than a good one. */
  async read(response: Response): Promise<unknown> {
    const isJson = response.headers.get("content-type")?.startsWith("application/json");
    const body = isJson ? await response.json() : null;
    if (!response.ok || !isJson) {
      const hint = body?.hint ? ` ${body.hint}` : "";
      const text = body ? `[${body.code}] ${body.message}${hint}` : `Status ${response.status}.`;
      throw new Refusal(text, response.status, body?.line, body?.column);
    }
    return body;
  }

  private async call(attempt: () => Promise<Response>, stop?: AbortSignal): Promise<Response> {
    for (;;) {
      const token = this.token;
      const response = await repeat(attempt);
      if (isSignIn(response)) {
        await this.waitForSignIn(stop);
      } else if (!(await isForeign(response))) {
        return response;
      } else if (!(await this.renewToken()) || this.token === token) {
        return response;
      } else {
        // The token of the form was that of an earlier sign-in.
        return repeat(attempt);
      }
    }
  }

  /** Return when the user has signed in again, in another tab. Raise an Error for another user. */
  private async waitForSignIn(stop?: AbortSignal): Promise<void> {
    this.notice.hidden = false;
    do {
      await nextSign(stop);
    } while (!(await this.renewToken()));
    this.notice.hidden = true;
  }

  /** Take the token of the present sign-in, if it is one of the same user. */
  private async renewToken(): Promise<boolean> {
    const response = await repeat(() => fetch(location.href));
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const form = page.getElementById("editor");
    const token = form?.querySelector<HTMLInputElement>("[name=form_token]")?.value;
    if (!token) {
      return false;
    }
    if (form.dataset.user !== this.form.dataset.user) {
      throw new Refusal(`${form.dataset.user} has signed in: load the page again.`, 403);
    }
    for (const own of document.querySelectorAll<HTMLInputElement>("[name=form_token]")) {
      own.value = token;
    }
    return true;
  }
}

function isSignIn(response: Response): boolean {
  return response.redirected && new URL(response.url).pathname.endsWith("/sign-in");
}

/** Whether the node refuses the token of the form, or the origin, and not what the user does. */
async function isForeign(response: Response): Promise<boolean> {
  // Some refusals are JSON, and some are pages.
  return response.status === 403 && (await response.clone().text()).includes("foreign_origin");
}

/** Milliseconds in which the page that a reload replaces gives up its connection. */
const LEAVING = 1_000;

/**
 * Hold a connection until the page is left. Return false if another tab of the browser holds it.
 * Browsers have locks over HTTPS and at localhost only: elsewhere, tabs can share a connection.
 */
function hold(connection: string): Promise<boolean> {
  if (!navigator.locks) {
    return Promise.resolve(true);
  }
  return new Promise((resolve) => {
    const keep = () => {
      resolve(true);
      return new Promise<void>(() => {});
    };
    const options = { signal: AbortSignal.timeout(LEAVING) };
    navigator.locks
      .request(`headrace connection ${connection}`, options, keep)
      .catch(() => resolve(false));
  });
}

/** Wait for a sign that the user has signed in. */
function nextSign(stop?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const channel = signInChannel();
    const listening = new AbortController();
    const end = () => {
      channel.close();
      listening.abort();
    };
    const succeed = () => {
      end();
      resolve();
    };
    channel.onmessage = succeed;
    window.addEventListener("focus", succeed, { signal: listening.signal });
    const fail = () => {
      end();
      reject(new Error("It was not sent: you have stopped it before you signed in again."));
    };
    if (stop?.aborted) {
      fail();
    }
    stop?.addEventListener("abort", fail, { signal: listening.signal });
  });
}

/** Make a call again while the network or the node fails, for a minute. */
async function repeat(call: () => Promise<Response>): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    try {
      const response = await call();
      if (response.status < 502 || attempt >= 12) {
        return response;
      }
    } catch (error) {
      if (attempt >= 12) {
        throw error;
      }
    }
    await new Promise((resolve) => window.setTimeout(resolve, 500 * Math.min(attempt + 1, 10)));
  }
}

/** Return a random key. `crypto.randomUUID` works over HTTPS and at localhost only. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}
