// Package page is the page at /: embedded HTML, scripts and styles that ask this process for its figures once a second,
// and a history of the last fifteen minutes, day and month, so that the page shows how the present state came about.
//
// The history is three rings of fixed size, in seconds, minutes and hours, for the relay and for each slot. It is in
// memory only, and ends with the process. Once a second the goroutine of Run reads figures that exist anyway; no
// code on the path of a row knows the page.
//
// uPlot (MIT) draws the charts. It is in assets/uplot with its checksums; `make uplot` fetches it again. The
// Content-Security-Policy lets the page load only these files and connect only to this process. Rows determine the
// names of topics and ids, so scripts write them as text and never as markup. A browser that knows Trusted Types
// refuses markup from scripts altogether.
package page
