// Package page is the page at /: embedded HTML, scripts and styles that ask this process for its figures once a second, and
// a history of the last fifteen minutes, so that the page shows what led to the present state.
//
// The history is a ring of fixed size per chart. One goroutine, Run's, reads the figures once a second from what exists
// anyway; no code on a row's path knows of it.
//
// Charts are drawn by uPlot (MIT), which is kept in assets/uplot with its checksums; `make uplot` fetches it again. The
// Content-Security-Policy lets the page load nothing but these files, and talk to this process only. Rows choose
// what topics and ids are called, so scripts write them as text and never as markup; where the browser knows Trusted Types,
// it refuses markup from scripts altogether.
package page
