// The address of the editor names its draft and its statements, so that a reload shows them again.

/** Replace the values of a parameter of the address. */
export function setParameter(name: string, values: string[]): void {
  const query = new URLSearchParams(location.search);
  query.delete(name);
  for (const value of values) {
    query.append(name, value);
  }
  const text = query.toString();
  window.history.replaceState(null, "", text ? `?${text}` : location.pathname);
}
