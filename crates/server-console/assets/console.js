// Keyboard shortcuts of the console. Every page works without this script.
"use strict";

(() => {
  const rows = () => [...document.querySelectorAll("[data-row]")];
  const selected = () => document.querySelector("[data-selected]");

  function select(row) {
    if (!row) return;
    const former = selected();
    if (former) former.removeAttribute("data-selected");
    row.setAttribute("data-selected", "");
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  function move(step) {
    const all = rows();
    if (all.length === 0) return;
    const at = all.indexOf(selected());
    const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
    select(all[Math.min(Math.max(next, 0), all.length - 1)]);
  }

  // The selected entry, or the only one.
  function current() {
    const all = rows();
    return selected() || (all.length === 1 ? all[0] : null);
  }

  function focusIn(row, selector) {
    const target = row && row.querySelector(selector);
    if (target) target.focus();
    return Boolean(target);
  }

  function toggleKeys() {
    const keys = document.getElementById("keys");
    if (!keys) return;
    keys.open = !keys.open;
    if (keys.open) keys.querySelector("summary").focus();
  }

  // Loads the list again when it has changed; with a notice instead if something is in hand.
  function watch(notice) {
    const events = new EventSource(notice.dataset.live);
    const isIdle = () => !selected() && !document.activeElement.closest("form")
      && [...document.querySelectorAll("[data-deny]")].every((field) => field.value === "");
    events.addEventListener("changed", () => {
      if (isIdle()) location.reload();
      else notice.hidden = false;
    });
    events.addEventListener("ended", () => {
      events.close();
      location.reload();
    });
    addEventListener("pagehide", () => events.close());
  }

  const live = document.querySelector("[data-live]");
  if (live && window.EventSource) watch(live);

  // A one-time link: its token goes into the field and out of the address. Signing in stays a decision of the user, or
  // any page could sign this browser in with a link of its own.
  const keyField = document.getElementById("key");
  const token = location.hash.match(/^#link=(link-[0-9a-f]+)$/);
  if (keyField && token) {
    keyField.value = token[1];
    history.replaceState(null, "", location.pathname + location.search);
    document.getElementById("sign-in").focus();
  }

  const isTyping = (target) =>
    target.matches("input:not([type=submit]), select, textarea") || target.isContentEditable;

  let awaitsTarget = false;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (awaitsTarget) {
      awaitsTarget = false;
      for (const link of document.querySelectorAll("[data-go]")) {
        if (link.dataset.go === event.key) {
          event.preventDefault();
          link.click();
        }
      }
      return;
    }
    const actions = {
      j: () => move(1),
      k: () => move(-1),
      a: () => focusIn(current(), "[data-approve]"),
      d: () => focusIn(current(), "[data-deny]"),
      g: () => { awaitsTarget = true; },
      "/": () => focusIn(document, "[data-search]"),
      r: () => { if (live && !live.hidden) location.reload(); },
      "?": toggleKeys,
    };
    if (event.key === "Enter" && event.target === selected()) {
      const link = event.target.querySelector("[data-open]");
      if (link) link.click();
    } else if (Object.hasOwn(actions, event.key)) {
      event.preventDefault();
      actions[event.key]();
    }
  });
})();
