// The faults in how a page looks and reads, as sentences. `arguments[0]`: whether it is a phone.
const phone = arguments[0];
const LEAST_CONTRAST = 4.5;
const LEAST_TARGET = 44; // px, on a phone
const faults = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const name = (element) =>
  `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}"> ` +
  `${element.textContent.trim().slice(0, 40)}`;
const visible = (element) => element.checkVisibility({ visibilityProperty: true });

// ── contrast ──────────────────────────────────────────────────────────────────────────────────

const channels = (color) => {
  const numbers = color.match(/[0-9.]+/g)?.map(Number) ?? [0, 0, 0, 0];
  return [...numbers, 1].slice(0, 4);
};
const over = (above, below) =>
  [0, 1, 2].map((each) => above[each] * above[3] + below[each] * (1 - above[3])).concat(1);
const background = (element) => {
  const layers = [];
  for (let each = element; each; each = each.parentElement)
    layers.push(channels(getComputedStyle(each).backgroundColor));
  return layers.reverse().reduce((below, above) => over(above, below), [255, 255, 255, 1]);
};
const luminance = (color) => {
  const [red, green, blue] = color.slice(0, 3).map((channel) => {
    const part = channel / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.textContent.trim() || !visible(element)) continue;
  if (element.closest("script, title, desc, .skip, .hidden")) continue;
  const style = getComputedStyle(element);
  const ink = channels(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
  const paper = background(element);
  const [light, dark] = [luminance(over(ink, paper)), luminance(paper)].sort((a, b) => b - a);
  const contrast = (light + 0.05) / (dark + 0.05);
  if (contrast < LEAST_CONTRAST) faults.push(`contrast ${contrast.toFixed(2)}: ${name(element)}`);
}

// ── what can be used ──────────────────────────────────────────────────────────────────────────

for (const field of all("input:not([type=hidden]), textarea"))
  if (!field.labels?.length) faults.push(`no label: ${field.outerHTML}`);
for (const each of all("button, a[href], summary"))
  if (!each.textContent.trim()) faults.push(`no name: ${each.outerHTML}`);
for (const each of all("fieldset"))
  if (!each.querySelector("legend")) faults.push(`no legend: ${name(each)}`);
// The bars of the timeline lead to what the list below has, too.
const targets = all("a[href], button, summary, textarea, .option").filter(
  (each) => visible(each) && !each.closest("svg, .skip"));
for (const each of phone ? targets : []) {
  const { width, height } = each.getBoundingClientRect();
  if (height < LEAST_TARGET || width < LEAST_TARGET)
    faults.push(`${Math.round(width)}×${Math.round(height)}: ${name(each)}`);
}

// ── the order of the page ─────────────────────────────────────────────────────────────────────

if (all("h1").length !== 1) faults.push(`${all("h1").length} h1`);
if (all("main").length !== 1 || !all("nav[aria-label]").length) faults.push("landmarks");
if (document.documentElement.lang !== "en") faults.push("language");
if (!document.title) faults.push("title");
const levels = all("h1, h2, h3, h4").map((each) => Number(each.tagName[1]));
levels.forEach((level, place) => {
  if (place && level > levels[place - 1] + 1) faults.push(`h${level} after h${levels[place - 1]}`);
});
const ids = all("[id]").map((each) => each.id);
for (const id of ids)
  if (ids.indexOf(id) !== ids.lastIndexOf(id)) faults.push(`twice: #${id}`);

// ── room ──────────────────────────────────────────────────────────────────────────────────────

const room = document.documentElement;
if (room.scrollWidth > room.clientWidth)
  faults.push(`${room.scrollWidth} px wide in ${room.clientWidth}`);
return faults;
