"use strict";
// Plays the gallery's films while they are in sight, unless the reader prefers less motion: then they wait for a click.

if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
  const seen = new IntersectionObserver((changes) => changes.forEach(({ target, isIntersecting }) => {
    if (isIntersecting) target.play().catch(() => {}); // a browser may forbid it: there are controls
    else target.pause();
  }));
  addEventListener("DOMContentLoaded", () => document.querySelectorAll("video").forEach((film) => seen.observe(film)));
}
