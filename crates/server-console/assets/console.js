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

  // An element that the server sent as [tag, attributes, children]. Text stays text.
  function build([tag, attributes, children]) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children.map((child) => (typeof child === "string" ? child : build(child))));
    return element;
  }

  // Adds rows above a table as they happen, and drops the oldest ones.
  function watchRows(region) {
    const maxRows = 100;
    const body = region.querySelector("tbody");
    const status = region.querySelector("[data-live-status]");
    const pause = region.querySelector("[data-pause]");
    let isPaused = false;
    let hasGap = false;
    const show = () => {
      const state = isPaused ? "Paused" : "Live";
      status.textContent = hasGap ? `${state}. More happened than is shown; the list of records has all.` : `${state}.`;
      pause.textContent = isPaused ? "Continue" : "Pause";
    };
    const events = new EventSource(region.dataset.liveRows);
    events.addEventListener("records", (event) => {
      const { rows: added, gap } = JSON.parse(event.data);
      hasGap = hasGap || gap;
      if (!isPaused && !document.hidden) {
        region.querySelectorAll(".empty").forEach((element) => element.remove());
        body.prepend(...added.slice(0, maxRows).map(build));
        while (body.rows.length > maxRows) body.lastElementChild.remove();
      } else hasGap = true;
      show();
    });
    events.addEventListener("ended", () => {
      events.close();
      location.reload();
    });
    addEventListener("pagehide", () => events.close());
    pause.hidden = false;
    pause.addEventListener("click", () => {
      isPaused = !isPaused;
      show();
    });
    show();
  }

  const liveRows = document.querySelector("[data-live-rows]");
  if (liveRows && window.EventSource) watchRows(liveRows);

  // A one-time link: its token goes into the field and out of the address. Signing in stays a decision of the user, or
  // any page could sign this browser in with a link of its own.
  const keyField = document.getElementById("key");
  const token = location.hash.match(/^#link=(link-[0-9a-f]+)$/);
  if (keyField && token) {
    keyField.value = token[1];
    history.replaceState(null, "", location.pathname + location.search);
    document.getElementById("sign-in").focus();
  }

  // The content of a chosen file goes into its field, in Base64. The file itself is not sent.
  for (const input of document.querySelectorAll("[data-file-of]")) {
    input.hidden = false;
    input.addEventListener("change", () => {
      const reader = new FileReader();
      reader.addEventListener("load", () => {
        document.getElementById(input.dataset.fileOf).value = reader.result.replace(/^[^,]*,/, "");
      });
      if (input.files[0]) reader.readAsDataURL(input.files[0]);
    });
  }

  const isTyping = (target) =>
    target.matches("input:not([type=submit]), select, textarea") || target.isContentEditable;

  // Searches while somebody types, and goes on where the typing was.
  const instant = document.querySelector("[data-instant]");
  if (instant) {
    let timer;
    instant.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        sessionStorage.setItem("typing", location.pathname);
        instant.form.requestSubmit();
      }, 400);
    });
    if (sessionStorage.getItem("typing") === location.pathname) {
      instant.focus();
      instant.setSelectionRange(instant.value.length, instant.value.length);
    }
    sessionStorage.removeItem("typing");
  }

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
      p: () => focusIn(document, "[data-pause]"),
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
