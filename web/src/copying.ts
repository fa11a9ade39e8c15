// Buttons that copy the text before them. Browsers allow it over HTTPS and at localhost only.

/** Show the buttons of the page, and those that an update adds, where they work. */
export function offerCopies(page: Document): void {
  if (!navigator.clipboard) {
    return;
  }
  page.documentElement.classList.add("copies-work");
  page.addEventListener("click", (event) => {
    const button = (event.target as Element).closest<HTMLButtonElement>("[data-copy]");
    const text = button?.previousElementSibling?.textContent;
    if (button && text) {
      navigator.clipboard.writeText(text).then(
        () => say(button, "Copied"),
        () => say(button, "Not allowed by the browser"),
      );
    }
  });
}

function say(button: HTMLButtonElement, text: string): void {
  button.textContent = text;
  window.setTimeout(() => {
    button.textContent = "Copy";
  }, 2000);
}
