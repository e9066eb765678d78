// Package token gets the tokens with which connections to Kafka log in by OAUTHBEARER: from a token endpoint, from a
// file, or signed with the credentials of AWS. All connections of a process share one source. A token is fetched ahead
// of its end, in the background, so that connections neither wait for the endpoint nor end while it is down.
package token
