"use strict";
// Keeps the view up to date: after an event of the server, or every few seconds where there are no events,
// the view is read again and morphed. What a person has opened, typed or focused stays as it is.
(() => {
  const PAUSE = 300; // milliseconds in which several events become one refresh
  const POLL = 5000; // milliseconds between two looks while there is no stream of events
  let due = 0;
  let busy = false;

  const edited = (form) => [...form.elements].some((each) =>
    each.matches("textarea, input:not([type=hidden]), select") &&
    (each === document.activeElement || (each.defaultValue ?? "") !== each.value && each.tagName !== "SELECT"));

  const callbacks = {
    beforeNodeMorphed: (before) => !(before.tagName === "FORM" && edited(before)),
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
  };

  const refresh = async () => {
    due = 0;
    if (document.hidden) return; // it is read when it is shown again
    if (busy) return later();
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      if (response.ok) {
        const read = new DOMParser().parseFromString(await response.text(), "text/html");
        Idiomorph.morph(document.querySelector("main"), read.querySelector("main"),
          { ignoreActiveValue: true, callbacks });
      }
    } catch {
      // the server is away; the next event or look tries again
    } finally {
      busy = false;
    }
  };

  const later = () => { due ||= setTimeout(refresh, PAUSE); };

  const poll = (milliseconds) => setInterval(later, milliseconds);

  const listen = () => {
    const stream = new EventSource("/api/events");
    for (const name of ["message", "reload"]) stream.addEventListener(name, later);
    stream.addEventListener("open", later);
    stream.addEventListener("error", () => {
      if (stream.readyState === EventSource.CLOSED) poll(POLL); // there is no such stream
    });
  };

  document.addEventListener("visibilitychange", later);
  const main = document.querySelector("main");
  if (main.dataset.refresh) poll(1000 * Number(main.dataset.refresh));
  else if (main.dataset.live) listen();
})();
