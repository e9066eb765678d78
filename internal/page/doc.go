// Package page is the page at /: embedded HTML, scripts and styles that ask this process for its figures once a second, and
// a history of the last fifteen minutes, so that whoever opens the page sees how it came to this.
//
// The history is a ring of fixed size per chart. One goroutine, Run's, reads the figures once a second from what exists
// anyway; nothing on the way of a row knows of it.
//
// Charts are drawn by uPlot (MIT), which is kept in assets/uplot with its checksums; `make uplot` fetches it anew. The
// Content-Security-Policy lets the page load nothing but these files, and talk to nobody but this process. Rows choose
// what topics and ids are called, so scripts write them as text and never as markup; where the browser knows Trusted Types,
// it refuses markup from scripts altogether.
package page
