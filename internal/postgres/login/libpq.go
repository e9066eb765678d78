package login

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// pgconn knows a part of libpq's connection parameters (Postgres docs, "Parameter Key Words") and sends every other one
// to the server as a setting, which refuses it. Here they have libpq's meaning: a connection string that psql takes is
// taken. A promise that this program cannot keep is refused.

// passive are parameters without meaning here.
var passive = []string{"gsslib", "gssdelegation", "sslcompression", "sslkeylogfile"}

// unkept are parameters whose promise this program cannot keep.
var unkept = []string{
	"requirepeer", "sslcrl", "sslcrldir", "scram_client_key", "scram_server_key", "oauth_issuer", "oauth_client_id",
	"oauth_client_secret", "oauth_scope",
}

// Libpq applies the parameters of libpq that the configuration holds as settings of the server. Its error names the
// parameter and quotes no value.
func Libpq(pc *pgconn.Config) error {
	p := pc.RuntimeParams
	for _, name := range passive {
		delete(p, name)
	}
	for _, name := range unkept {
		if p[name] != "" {
			return fmt.Errorf("%s is not supported", name)
		}
		delete(p, name)
	}
	if name, found := take(p, "fallback_application_name"); found && p["application_name"] == "" {
		p["application_name"] = name
	}
	switch mode, _ := take(p, "gssencmode"); mode {
	case "", "disable", "prefer":
	default:
		return errors.New("gssencmode is not supported, except for disable and prefer")
	}
	for _, apply := range []func(*pgconn.Config) error{hostAddresses, balance, protocols, keepAlive} {
		if err := apply(pc); err != nil {
			return err
		}
	}
	return nil
}

func take(p map[string]string, name string) (value string, found bool) {
	value, found = p[name]
	delete(p, name)
	return value, found
}

// endpoints are the addresses of the configuration, each with the TLS that is tried one after the other.
func endpoints(pc *pgconn.Config) [][]*pgconn.FallbackConfig {
	all := [][]*pgconn.FallbackConfig{{{Host: pc.Host, Port: pc.Port, TLSConfig: pc.TLSConfig}}}
	for _, f := range pc.Fallbacks {
		last := all[len(all)-1]
		if f.Host == last[0].Host && f.Port == last[0].Port {
			all[len(all)-1] = append(last, f)
		} else {
			all = append(all, []*pgconn.FallbackConfig{f})
		}
	}
	return all
}

func setEndpoints(pc *pgconn.Config, all [][]*pgconn.FallbackConfig) {
	flat := slices.Concat(all...)
	pc.Host, pc.Port, pc.TLSConfig = flat[0].Host, flat[0].Port, flat[0].TLSConfig
	pc.Fallbacks = flat[1:]
}

// hostAddresses connects to hostaddr and asks no DNS. The host stays the name for TLS.
func hostAddresses(pc *pgconn.Config) error {
	text, found := take(pc.RuntimeParams, "hostaddr")
	if !found || text == "" {
		return nil
	}
	addresses, all := strings.Split(text, ","), endpoints(pc)
	if len(addresses) != len(all) {
		return fmt.Errorf("hostaddr has %d addresses for %d hosts", len(addresses), len(all))
	}
	known := map[string][]string{}
	for i, address := range addresses {
		if address == "" {
			continue
		}
		if net.ParseIP(address) == nil {
			return errors.New("hostaddr is not a list of IP addresses")
		}
		if strings.HasPrefix(all[i][0].Host, "/") { // the default, and no TLS with it
			return errors.New("hostaddr needs host, the name for TLS, beside it")
		}
		known[all[i][0].Host] = append(known[all[i][0].Host], address)
	}
	lookup := pc.LookupFunc
	pc.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		if addresses := known[host]; len(addresses) > 0 {
			return addresses, nil
		}
		return lookup(ctx, host)
	}
	return nil
}

// balance begins with any of the hosts.
func balance(pc *pgconn.Config) error {
	switch mode, _ := take(pc.RuntimeParams, "load_balance_hosts"); mode {
	case "", "disable":
	case "random":
		all := endpoints(pc)
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		setEndpoints(pc, all)
	default:
		return errors.New("load_balance_hosts is neither disable nor random")
	}
	return nil
}

var tlsVersions = map[string]uint16{
	"tlsv1": tls.VersionTLS10, "tlsv1.1": tls.VersionTLS11, "tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13,
}

// protocols bounds the version of TLS.
func protocols(pc *pgconn.Config) error {
	least, _ := take(pc.RuntimeParams, "ssl_min_protocol_version")
	most, _ := take(pc.RuntimeParams, "ssl_max_protocol_version")
	for name, text := range map[string]string{"ssl_min_protocol_version": least, "ssl_max_protocol_version": most} {
		if text != "" && tlsVersions[strings.ToLower(text)] == 0 {
			return fmt.Errorf("%s is none of %s", name, strings.Join(slices.Sorted(maps.Keys(tlsVersions)), ", "))
		}
	}
	for _, f := range slices.Concat(endpoints(pc)...) {
		if f.TLSConfig != nil {
			f.TLSConfig.MinVersion = cmp.Or(tlsVersions[strings.ToLower(least)], f.TLSConfig.MinVersion)
			f.TLSConfig.MaxVersion = cmp.Or(tlsVersions[strings.ToLower(most)], f.TLSConfig.MaxVersion)
		}
	}
	return nil
}

// keepAlive sets the probes of an idle connection.
func keepAlive(pc *pgconn.Config) error {
	alive := net.KeepAliveConfig{Enable: true}
	given := false
	for name, set := range map[string]func(int){
		"keepalives":          func(n int) { alive.Enable = n != 0 },
		"keepalives_idle":     func(n int) { alive.Idle = time.Duration(n) * time.Second },
		"keepalives_interval": func(n int) { alive.Interval = time.Duration(n) * time.Second },
		"keepalives_count":    func(n int) { alive.Count = n },
	} {
		text, found := take(pc.RuntimeParams, name)
		if !found || text == "" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 || n > 1<<20 {
			return fmt.Errorf("%s is not a number", name)
		}
		given = true
		set(n)
	}
	if given {
		dialer := net.Dialer{Timeout: pc.ConnectTimeout, KeepAliveConfig: alive}
		if !alive.Enable {
			dialer.KeepAlive = -1
		}
		pc.DialFunc = dialer.DialContext
	}
	return nil
}
