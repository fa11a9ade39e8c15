// The script of every page. The pages can be read without it: it keeps them current.
import { offerCopies } from "./copying";
import { followEvents } from "./events";
import { LiveRegion } from "./live";
import { tick } from "./ticking";

const { root = "./" } = document.documentElement.dataset;
const region = document.getElementById("live");
if (region) {
  followEvents(new URL(root, location.href), new LiveRegion(region));
}
tick(document);
offerCopies(document);
// The next user of the browser must not find SQL.
document.addEventListener("submit", (event) => {
  if ((event.target as HTMLFormElement).action.endsWith("/sign-out")) {
    sessionStorage.clear();
  }
});
