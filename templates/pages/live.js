// Shows a page anew when its session changes. What a person is writing stays, and they are told.
"use strict";

const topic = document.body.dataset.topic;
const news = document.getElementById("news");
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const words = (element) => element?.textContent.trim() ?? "";

const written = () =>
  all("main textarea").some((field) => field.value !== field.defaultValue) ||
  all("main .option input").some((field) => field.checked !== field.defaultChecked);
const inUse = () =>
  written() || document.activeElement?.closest("main form") || !document.getSelection().isCollapsed;

// ── what is shown above the page ──────────────────────────────────────────────────────────────

let act = null;
function tell(sentence, link, then) {
  act = then;
  if (news.dataset.told === sentence) return; // else it would be read aloud again
  news.dataset.told = sentence;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = link;
  button.addEventListener("click", () => act());
  news.replaceChildren(`${sentence} `, ...(link ? [button] : []));
}

function hush() {
  delete news.dataset.told;
  news.replaceChildren();
}

// A page that is left for another cannot reach the inbox either, for a moment.
let failing = 0;
function lost() {
  const sentence = "The inbox cannot be reached. What you see may be out of date.";
  failing ||= setTimeout(() => tell(sentence, "", null), 2000);
}
function found() {
  clearTimeout(failing);
  failing = 0;
}

function tellOf(fresh) {
  if (one("form", fresh)) {
    tell("This has changed since you began to answer.", "Show it as it is now", () => {
      replace(fresh);
      one("main").focus();
    });
    return;
  }
  const told = [one("h1", fresh), ...all("p:not(:has(a))", fresh)].map(words).join(". ");
  const lost = written() ? " Your words were not sent." : "";
  tell(`${told}.${lost}`, "Go on", () => location.assign(one("a.button", fresh)?.href ?? "/"));
}

// ── the page ──────────────────────────────────────────────────────────────────────────────────

const places = (main) => all("a[href], summary, [tabindex]", main);
const alike = (one, other) => one.tagName === other.tagName && words(one) === words(other);

function replace(fresh) {
  const former = one("main");
  const opened = all("details[open] > summary", former);
  for (const each of all("details > summary", fresh))
    if (opened.some((other) => alike(each, other))) each.parentElement.open = true;
  for (const field of all("textarea", former)) {
    const same = one(`[name="${field.name}"]`, fresh);
    if (same && field.value !== field.defaultValue) same.value = field.value;
  }
  for (const field of all(".option input", former)) {
    const same = one(`[name="${field.name}"][value="${field.value}"]`, fresh);
    if (same) same.checked = field.checked;
  }
  const focused = places(former).find((each) => each === document.activeElement);
  former.replaceWith(document.adoptNode(fresh));
  if (focused)
    places(fresh).find((each) => alike(each, focused))?.focus({ preventScroll: true });
  hush();
}

let loading = false;
let wanted = false;
async function show() {
  if (loading) { wanted = true; return; }
  loading = true;
  try {
    const reply = await fetch(location.href, { headers: { "X-Live": "1" } });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = one("main", page);
    if (!fresh) throw new Error("no page");
    found();
    if (!inUse()) {
      document.title = page.title;
      replace(fresh);
    } else if (fresh.dataset.state !== one("main").dataset.state) tellOf(fresh);
    else hush();
  } catch {
    lost();
  } finally {
    loading = false;
    if (wanted) { wanted = false; setTimeout(show, 500); }
  }
}

// After a refused answer, "back" and "reload" load the page anew instead of sending it again.
history.replaceState(null, "", location.href);

// ── when to look ──────────────────────────────────────────────────────────────────────────────

const events = new EventSource("/events");
let connected = true;
events.addEventListener("error", () => { connected = false; lost(); });
events.addEventListener("open", () => { if (!connected) show(); connected = true; found(); });
events.addEventListener("message", (event) => {
  const changed = JSON.parse(event.data);
  if (!topic || changed.includes(topic)) show();
});
setInterval(() => { if (!document.hidden) show(); }, 60000);
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// One answer is sent once, however often the button is pressed.
document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
