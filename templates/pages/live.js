// Shows a page anew when its session changes. What a person is typing is left alone.
"use strict";

const topic = document.body.dataset.topic;
const banner = document.getElementById("changed");
let wanted = false;
let loading = false;

const inUse = () =>
  document.activeElement?.closest("form") ||
  [...document.querySelectorAll("textarea")].some((field) => field.value !== field.defaultValue) ||
  [...document.querySelectorAll(".option input")].some((field) => field.checked) ||
  !document.getSelection().isCollapsed;

async function show() {
  if (loading) { wanted = true; return; }
  loading = true;
  try {
    const reply = await fetch(location.href, { headers: { "X-Live": "1" } });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = page.querySelector("main");
    if (!fresh || (reply.status >= 400 && reply.status !== 409)) { location.reload(); return; }
    const now = document.querySelector("main");
    if (inUse()) { banner.hidden = fresh.dataset.state === now.dataset.state; return; }
    const opened = new Set([...now.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
    const focused = document.activeElement?.getAttribute("href");
    for (const each of fresh.querySelectorAll("details > summary"))
      if (opened.has(each.textContent)) each.parentElement.open = true;
    now.replaceWith(document.adoptNode(fresh));
    if (focused) document.querySelector(`main a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    document.title = page.title;
    banner.hidden = true;
  } finally {
    loading = false;
    if (wanted) { wanted = false; setTimeout(show, 500); }
  }
}

const events = new EventSource("/events");
let connected = false;
events.addEventListener("open", () => { if (connected) show(); connected = true; });
events.addEventListener("message", (event) => {
  const changed = JSON.parse(event.data);
  if (!topic || changed.includes(topic)) show();
});
setInterval(() => { if (!document.hidden) show(); }, 60000);
banner.querySelector("a").addEventListener("click", (event) => { event.preventDefault(); location.reload(); });
