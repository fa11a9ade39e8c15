// The script of every page. The pages can be read without it: it keeps them current.

import { signInChannel } from "./calls";
import { offerCells } from "./cells";
import { offerCopies } from "./copying";
import { followEvents } from "./events";
import { LiveRegion } from "./live";
import { tick } from "./ticking";

const { root = "./" } = document.documentElement.dataset;
const base = new URL(root, location.href);
const region = document.getElementById("live");
if (region) {
  const live = new LiveRegion(region);
  followEvents(base, {
    change(change) {
      live.change(change);
      document.dispatchEvent(new CustomEvent("headrace:change", { detail: change.id }));
    },
    catchUp() {
      live.catchUp();
      document.dispatchEvent(new CustomEvent("headrace:change", { detail: null }));
    },
  });
}
tick(document);
offerCopies(document);
offerCells(document);
if (document.querySelector("header .user")) {
  // Editors of other tabs may wait for a sign-in.
  signInChannel().postMessage(null);
}
// The next user of the browser must not find SQL in another tab.
const signOuts = new BroadcastChannel(`headrace sign-out ${base.pathname}`);
signOuts.onmessage = () => location.reload();
document.addEventListener("submit", (event) => {
  if ((event.target as HTMLFormElement).action.endsWith("/sign-out")) {
    signOuts.postMessage(null);
  }
});
