package standbys

import (
	"errors"
	"time"
)

// elsewherePatience is how long a server may answer that does not serve the stream, before the stream is doubted.
const elsewherePatience = 5 * time.Second

// Elsewhere reports, while a transaction waits, that the server has answered for a while that another session has the
// slot, or none. Either the stream is dead and nothing on its connection shows it, since nothing is read from it
// meanwhile. Or the gate asks another server. The stream's own server knows.
func (g *Gate) Elsewhere() <-chan struct{} { return g.elsewhere }

// doubt counts the time of such answers, with the lock.
func (g *Gate) doubt(err error) {
	switch {
	case g.request == nil || !errors.Is(err, errElsewhere):
		g.doubted = time.Time{}
	case g.doubted.IsZero():
		g.doubted = time.Now()
	case time.Since(g.doubted) >= elsewherePatience:
		g.doubted = time.Now()
		select {
		case g.elsewhere <- struct{}{}:
		default: // it is reported, and not taken yet
		}
	}
}

// trust forgets it, with the lock.
func (g *Gate) trust() {
	g.doubted = time.Time{}
	select {
	case <-g.elsewhere:
	default:
	}
}
