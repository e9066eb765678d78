package page

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
)

//go:embed assets
var embedded embed.FS

// policy lets the page load files from this process and query it, and nothing else. uPlot sets styles through the DOM,
// to which style-src does not apply (CSP3, section 8.3). No script of the page writes markup; Trusted Types enforce it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types " +
	"'none'"

// types are not left to the host's table, which may have any opinion about .js.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", "": "text/plain; charset=utf-8",
}

// guarded sends the page's policy with the answers of next.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		next.ServeHTTP(w, r)
	})
}

func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	send(w, "index.html")
}

func asset(w http.ResponseWriter, r *http.Request) { send(w, r.PathValue("name")) }

func send(w http.ResponseWriter, name string) {
	if !fs.ValidPath(name) {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	body, err := embedded.ReadFile(path.Join("assets", name)) // a directory is an error, too
	if err != nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	_, _ = w.Write(body) // an error means that the reader went away
}
