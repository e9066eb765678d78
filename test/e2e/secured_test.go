//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/cdc-outbox/cdc-outbox/test/testkit"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafka"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/kafkaclient"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/oracle"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/process"
	"github.com/cdc-outbox/cdc-outbox/test/testkit/proxy"
)

// secured is a broker that lets in who authenticates with SCRAM, and may only do what it was allowed. Four more
// listeners speak TLS, each with another certificate, and all of them tell clients the address of one proxy: where it
// leads decides what a client meets.
type secured struct {
	*kafka.Cluster
	line, tls *proxy.Proxy
	ca        string // file with the authority that clients trust
}

// Listeners with TLS.
const (
	tlsGood    = "TLSGOOD"
	tlsForeign = "TLSFOREIGN"
	tlsHost    = "TLSHOST"
	tlsExpired = "TLSEXPIRED"
)

// user is whom the connector is for Kafka.
const user = "relay"

func startSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{}
	ours, foreign := newAuthority(t, "ours"), newAuthority(t, "somebody else's")
	s.ca = ours.file(t)
	local, later := net.IPv4(127, 0, 0, 1), time.Now().Add(time.Hour)
	var err error
	s.tls, err = proxy.Start("127.0.0.1:1", proxy.Raw)
	require.NoError(t, err)
	t.Cleanup(s.tls.Close)
	var listeners []kafka.Listener
	for name, keystore := range map[string]string{
		tlsGood: ours.keystore(t, local, "", later), tlsForeign: foreign.keystore(t, local, "", later),
		tlsHost:    ours.keystore(t, nil, "kafka.elsewhere.example", later),
		tlsExpired: ours.keystore(t, local, "", time.Now().Add(-time.Hour)),
	} {
		listeners = append(listeners, kafka.Listener{
			Name: name, Protocol: "SSL",
			Settings:  map[string]string{"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore},
			Advertise: func(int, string) string { return s.tls.Addr() },
		})
	}
	s.Cluster = testkit.DedicatedKafka(t, kafka.Options{
		Protocol: "SASL_PLAINTEXT", Listeners: listeners,
		Settings: map[string]string{
			"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":           "User:ANONYMOUS", "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
			"listener.name.client.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram." +
				"ScramLoginModule required;",
		},
		Advertise: func(_ int, addr string) string {
			s.line, err = proxy.Start(addr, proxy.Kafka)
			require.NoError(t, err)
			t.Cleanup(s.line.Close)
			return s.line.Addr()
		},
	})
	require.NoError(t, s.Create(within(t, patience), kafkaclient.Topic{Name: "cdc-outbox.positions"}))
	s.allow(t, kadm.NewACLs().TransactionalIDs("cdc-outbox.").ResourcePatternType(kadm.ACLPatternPrefixed).
		Operations(kadm.OpWrite, kadm.OpDescribe))
	s.allow(t, kadm.NewACLs().Groups("cdc-outbox.").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpRead,
		kadm.OpDescribe))
	s.allow(t, kadm.NewACLs().Topics("cdc-outbox.positions").ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpRead, kadm.OpDescribe))
	return s
}

func (s *secured) allow(t *testing.T, acl *kadm.ACLBuilder) {
	t.Helper()
	created, err := s.Admin().CreateACLs(within(t, patience), acl.Allow("User:"+user).AllowHosts())
	require.NoError(t, err)
	for _, c := range created {
		require.NoError(t, c.Err)
	}
}

// forbidWrite is a right taken away (a denial outweighs what is allowed); give gives it back.
func (s *secured) forbidWrite(t *testing.T, topic string) (give func()) {
	t.Helper()
	denial := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite).
		Deny("User:" + user).DenyHosts()
	created, err := s.Admin().CreateACLs(within(t, patience), denial)
	require.NoError(t, err)
	require.NoError(t, created[0].Err)
	return func() {
		deleted, err := s.Admin().DeleteACLs(within(t, patience), denial)
		require.NoError(t, err)
		require.NotEmpty(t, deleted)
		require.Len(t, deleted[0].Deleted, 1)
	}
}

// setPassword sets the user's password at the broker.
func (s *secured) setPassword(t *testing.T, password string) {
	t.Helper()
	set, err := s.Admin().AlterUserSCRAMs(within(t, patience), nil, []kadm.UpsertSCRAM{{
		User: user, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password,
	}})
	require.NoError(t, err)
	require.NoError(t, set.Error())
}

// awaitPassword waits until the broker lets the user in with the password. It hears of it from its controller.
func (s *secured) awaitPassword(t *testing.T, password string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...),
		kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	require.NoError(t, err)
	defer client.Close()
	until(t, patience, 100*time.Millisecond, func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := client.Ping(ctx)
		return err == nil, fmt.Sprint("the new password is refused: ", err)
	})
}

// start starts relays that authenticate with the password in a file, and may write to their topics.
func (s *secured) start(t *testing.T) (all relays, passwordFile string) {
	t.Helper()
	passwordFile = filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(passwordFile, []byte("first-secret\n"), 0o600))
	s.setPassword(t, "first-secret")
	s.allow(t, kadm.NewACLs().Topics("t_").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpWrite,
		kadm.OpDescribe, kadm.OpDescribeConfigs))
	return startRelays(t, surroundings{kafka: s.Cluster, env: map[string]string{
		"CDC_OUTBOX_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "CDC_OUTBOX_KAFKA_SASL_USERNAME": user,
		"CDC_OUTBOX_KAFKA_SASL_PASSWORD": "@" + passwordFile, "CDC_OUTBOX_HTTP_STALL": "2s",
	}}, oracle.Load{}), passwordFile
}

// Bug (producer): With transactions, a topic that may not be written was reported as a missing right on the
// transactional id. Cost: a remedy that does not help.
func TestSecured(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	t.Run("certificates", func(t *testing.T) {
		t.Parallel() // they have listeners and a line of their own
		s.certificates(t)
	})
	t.Run("a password", func(t *testing.T) {
		t.Parallel()
		t.Run("without a right", s.rightTakenAway)
		t.Run("that changes", s.passwordChanges)
	})
}

// Neither requests nor log lines pile up while a right is missing, and it goes on automatically when the right is
// given.
func (s *secured) rightTakenAway(t *testing.T) {
	all, _ := s.start(t)
	all.written(200)
	var gives []func()
	for _, r := range all {
		gives = append(gives, s.forbidWrite(t, r.oracle.Topics()[0]))
	}
	for _, r := range all {
		topic := r.oracle.Topics()[0]
		t.Logf("%s: not ready: %s", r.name, awaitNotReady(t, r.p, patience, topic, "TOPIC_AUTHORIZATION_FAILED"))
		remedy := ""
		until(t, patience, 50*time.Millisecond, func() (bool, string) {
			w := waits(t, r.p)
			for _, one := range w {
				if one["kind"] == "not_authorized" {
					remedy = fmt.Sprint(one["next"], one["commands"])
				}
			}
			return remedy != "", fmt.Sprint("it waits for ", w)
		})
		t.Logf("%s: next: %s", r.name, remedy)
		require.Contains(t, remedy, topic, "the remedy names the topic")
		require.Contains(t, remedy, "Write", "and the right")
		require.Contains(t, remedy, "User:"+user, "and who needs it")
	}
	for _, r := range all {
		r.writers.Stop() // what is counted from here on is due to the missing right
	}
	time.Sleep(5 * time.Second) //waits:ok the pauses between attempts have grown by then
	d := soak(30*time.Second, 8*time.Second)
	requests, lines := s.line.Requests(), logLines(all)
	time.Sleep(d) //waits:ok attempts are counted for so long
	requests, lines = s.line.Requests()-requests, logLines(all)-lines
	t.Logf("in %v without the right both relays sent %d requests and wrote %d lines to their logs", d, requests, lines)
	require.Less(t, requests, int(d.Seconds())*4, "no hot loop")
	require.Less(t, lines, 8)
	for i, r := range all {
		r.writers = r.oracle.StartWriters(oracle.Load{})
		t.Cleanup(func() { r.writers.Stop() })
		gives[i]()
	}
	all.catchUp("the right is given", time.Now())
	all.once()
}

func logLines(all relays) (n int) {
	for _, r := range all {
		n += strings.Count(r.p.Log(), "\n")
	}
	return n
}

// A changed password meets the next connection. The old one is refused with a sentence; the new one is read from its
// file.
func (s *secured) passwordChanges(t *testing.T) {
	all, file := s.start(t)
	for round := range soak(5, 1) {
		all.written(200)
		password := fmt.Sprintf("secret-%d", round)
		s.setPassword(t, password)
		s.awaitPassword(t, password) // open connections stay as they are
		s.line.Reset()
		for _, r := range all {
			t.Logf("%s: not ready: %s", r.name, awaitNotReady(t, r.p, patience, "SASL_AUTHENTICATION_FAILED"))
			require.Contains(t, awaitWait(t, r.p, "not_authenticated")["next"], "kafka.sasl")
		}
		requests := s.line.Requests(36) // SaslAuthenticate
		time.Sleep(4 * time.Second)     //waits:ok attempts are counted for so long
		t.Logf("refused: %d SaslAuthenticate requests of both relays in 4 s", s.line.Requests(36)-requests)
		require.Less(t, s.line.Requests(36)-requests, 40)
		require.NoError(t, os.WriteFile(file, []byte(password), 0o600))
		all.catchUp("the file has the new password", time.Now())
	}
	all.once()
	for _, r := range all {
		require.NotContains(t, r.p.Log(), "secret", "passwords in the log")
	}
}

// A broker whose certificate is not valid gets nothing: no record, and not one byte outside TLS. Exchanged for a good
// one, all goes on.
func (s *secured) certificates(t *testing.T) {
	all := []struct{ listener, says, next string }{
		{tlsForeign, "certificate signed by unknown authority", "kafka.tls"},
		{tlsHost, "doesn't contain any IP SANs", "advertised.listeners"},
		{tlsExpired, "certificate has expired", "Renew"},
	}
	r := newRig(t, surroundings{kafka: s.Cluster, env: map[string]string{
		"CDC_OUTBOX_KAFKA_BROKERS": s.tls.Addr(), "CDC_OUTBOX_KAFKA_TLS_ENABLED": "true",
		"CDC_OUTBOX_KAFKA_TLS_CA": s.ca, "CDC_OUTBOX_HTTP_STALL": "2s",
	}})
	s.tls.Redirect(s.Brokers[0].Listener(tlsGood))
	p := r.start()
	writers := r.oracle.StartWriters(oracle.Load{})
	t.Cleanup(func() { writers.Stop() })
	for _, bad := range all {
		written(t, writers, 100)
		s.tls.Redirect(s.Brokers[0].Listener(bad.listener))
		s.tls.Reset()
		t.Logf("%s: not ready: %s", bad.listener, awaitNotReady(t, p, patience, bad.says))
		w := awaitWait(t, p, "not_authenticated")
		t.Logf("next: %s", w["next"])
		require.Contains(t, w["next"], bad.next)
		// What the broker took before is acknowledged and confirmed.
		at := settled(t, func() oracle.LSN { return confirmed(r) })
		count, err := s.Count(r.within(patience), r.oracle.Topics()...)
		require.NoError(t, err)
		openings := len(s.tls.Openings())
		time.Sleep(soak(20*time.Second, 4*time.Second)) //waits:ok the fault lasts
		require.True(t, p.Running())
		until(t, patience, 50*time.Millisecond, func() (bool, string) { // the pauses grow
			return len(s.tls.Openings()) > openings, "it does not try again"
		})
		t.Logf("tried again %d times meanwhile", len(s.tls.Openings())-openings)
		require.Equal(t, at, confirmed(r))
		now, err := s.Count(r.within(patience), r.oracle.Topics()...)
		require.NoError(t, err)
		require.Equal(t, count, now, "nothing reached a broker that could not prove itself")

		s.checkRefuses(t, r, bad.says)
		s.tls.Redirect(s.Brokers[0].Listener(tlsGood))
		began := time.Now()
		require.NoError(t, r.oracle.AwaitCaughtUp(r.within(patience)))
		t.Logf("with a good certificate: confirmed again after %v", time.Since(began).Round(10*time.Millisecond))
	}
	for _, b := range s.tls.Openings() {
		require.EqualValues(t, 22, b, "every connection begins with TLS")
	}
	t.Logf("%d connections, all TLS", len(s.tls.Openings()))
	r.Logf("written: %+v", writers.Stop())
	require.NoError(t, p.Ready(r.within(patience)))
	r.once()
}

// checkRefuses has cdc-outbox check say the same, with its exit code for an operator's affairs.
func (s *secured) checkRefuses(t *testing.T, r *rig, says string) {
	t.Helper()
	p, err := process.Start(process.Options{Args: []string{"check"}, Env: r.env})
	require.NoError(t, err)
	defer p.Close()
	code, err := p.Wait(patience)
	require.NoError(t, err)
	require.Contains(t, p.Stdout()+p.Log(), says)
	require.Equal(t, 3, code, p.Stdout()+p.Log())
}
