// What the theme's markup lacks for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  // A label that differs from the visible text hides that text from speech control.
  document.querySelectorAll(".search-button-field, summary").forEach((element) => {
    element.removeAttribute("aria-label");
  });
  document.querySelectorAll(".theme-switch").forEach((icon) => {
    icon.removeAttribute("title");
    icon.setAttribute("aria-hidden", "true");
  });
  // An entry of a bibliography stands in a list: say that it is an item of it.
  document.querySelectorAll("[role=doc-biblioentry]").forEach((entry) => {
    entry.setAttribute("role", "listitem");
  });
});
