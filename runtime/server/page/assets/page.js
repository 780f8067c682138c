"use strict";
// Keeps the view up to date: after an event of the server, or every few seconds where there are no events,
// the view is read again and morphed. What a person has opened, typed or focused stays as it is.
// Forms are sent with the proof that a person sits here, if the link of the terminal was opened in this tab.
(() => {
  const PAUSE = 300; // milliseconds in which several events become one refresh
  const POLL = 5000; // milliseconds between two looks while there is no stream of events
  const PROOF = "fractal-person";
  let due = 0;
  let busy = false;

  const edited = (form) => [...form.elements].some((each) =>
    each.matches("textarea, input:not([type=hidden]), select") &&
    (each === document.activeElement || (each.defaultValue ?? "") !== each.value && each.tagName !== "SELECT"));

  const callbacks = {
    beforeNodeMorphed: (before) => !(before.tagName === "FORM" && edited(before)),
    beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
  };

  const morph = (text) => {
    const read = new DOMParser().parseFromString(text, "text/html");
    document.title = read.title;
    Idiomorph.morph(document.querySelector("main"), read.querySelector("main"),
      { ignoreActiveValue: true, callbacks });
  };

  const say = (text) => { document.querySelector("#said").textContent = text; };

  const signIn = () => { // the session has ended; a reload shows the form
    if ([...document.forms].some(edited)) say("You are signed out. Reload this page to sign in.");
    else location.reload();
  };

  const dropStale = async () => { // a proof ends with the server; without one, answers are still accepted
    const proof = sessionStorage.getItem(PROOF);
    if (!proof) return;
    const response = await fetch("/api/person", { headers: { "x-fractal-person": proof } });
    if (response.ok && !(await response.json()).person) sessionStorage.removeItem(PROOF);
  };

  const admit = async () => {
    const code = /^#person=([^&]+)/.exec(location.hash)?.[1];
    if (!code) return dropStale();
    history.replaceState(null, "", location.pathname + location.search);
    const response = await fetch("/api/person", { method: "POST", body: JSON.stringify({ code }),
      headers: { "content-type": "application/json" } });
    const told = await response.json();
    if (response.ok) sessionStorage.setItem(PROOF, told.proof);
    say(response.ok ? "This tab may approve what needs a person." : told.error);
  };

  const submit = async (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    event.preventDefault();
    say("");
    if (form.id === "sign-out") sessionStorage.clear();
    const proof = sessionStorage.getItem(PROOF);
    const place = event.submitter?.hasAttribute("formaction") ? event.submitter.formAction : form.action;
    const response = await fetch(place, { method: "POST", body: new URLSearchParams(new FormData(form)),
      headers: { accept: "text/html", ...(proof && { "x-fractal-person": proof }) } });
    const text = await response.text();
    if (response.status === 401) return signIn();
    if (!response.ok) {
      const read = new DOMParser().parseFromString(text, "text/html");
      return say(read.querySelector(".problem")?.textContent ?? text);
    }
    form.reset();
    if (response.url !== location.href) history.pushState(null, "", response.url);
    morph(text);
  };

  const refresh = async () => {
    due = 0;
    if (document.hidden) return; // it is read when it is shown again
    if (busy) return later();
    busy = true;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      if (response.ok) morph(await response.text());
      else if (response.status === 401) signIn();
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
  document.addEventListener("submit", (event) => submit(event).catch(() => say("The server does not answer.")));
  window.addEventListener("popstate", later);
  admit().catch(() => {}); // the server is away
  const main = document.querySelector("main");
  if (main.dataset.refresh) poll(1000 * Number(main.dataset.refresh));
  else if (main.dataset.live) listen();
})();
