/** Makes elements: text is always text, never markup. */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element with attributes and children; what is null, undefined or false is left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Say something to those who listen and do not look. */
export function unseen(text) {
  return h("span", { class: "unseen" }, text);
}

/** Make text that carries a level beyond its colour: a mark to see and a word to hear. */
export function marked(text, level, words) {
  if (!level) return h("span", {}, text);
  return h("span", { class: `level ${level}` }, h("span", { "aria-hidden": "true" }, level === "bad" ? "■ " : "▲ "), unseen(`${words[level]}: `), text);
}

/** Tell how bad a number is. */
export function levelOf(value, warnAbove, badAbove) {
  return value > badAbove ? "bad" : value > warnAbove ? "warn" : "";
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
