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
