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
  // All that is read lies in a landmark; the theme leaves the book's title outside of them.
  const title = document.querySelector(".bd-sidebar-primary .navbar-brand")?.parentElement;
  title?.setAttribute("role", "region");
  title?.setAttribute("aria-label", "Title of the book");
  // An entry of a bibliography stands in a list: say that it is an item of it.
  document.querySelectorAll("[role=doc-biblioentry]").forEach((entry) => {
    entry.setAttribute("role", "listitem");
  });
  // Whatever is linked to is seen: what folds it opens.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let fold = target?.closest?.("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
    target?.scrollIntoView?.();
  };
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
});
