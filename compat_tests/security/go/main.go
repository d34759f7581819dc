// Client of franz-go: produces and consumes with the login that standard input describes, and prints values or an error.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const timeout = 30 * time.Second

// Task has the login of a client, and the values that it produces. Empty fields are not used.
type Task struct {
	Address, Topic            string
	UsesTLS                   bool
	Mechanism, User, Password string
	OauthbearerToken          string `json:"oauthbearer_token"`
	IsToken                   bool
	Authority, Identity       string
	Values                    []string
}

// Result has the consumed values, or the error.
type Result struct {
	Values []string `json:"values"`
	Error  string   `json:"error"`
}

func main() {
	var task Task
	if err := json.NewDecoder(os.Stdin).Decode(&task); err != nil {
		panic(err)
	}
	result := Result{Values: []string{}}
	values, err := exchange(task)
	if err != nil {
		result.Error = err.Error()
	} else {
		result.Values = values
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
}

// exchange produces the values to partition 0, and returns what it consumes from there.
func exchange(task Task) ([]string, error) {
	options, err := optionsOf(task)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return nil, err
	}
	for _, value := range task.Values {
		record := &kgo.Record{Topic: task.Topic, Value: []byte(value)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return nil, err
		}
	}
	return consume(ctx, client, len(task.Values))
}

func consume(ctx context.Context, client *kgo.Client, count int) ([]string, error) {
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
		}
	}
	return values, nil
}

func optionsOf(task Task) ([]kgo.Opt, error) {
	start := map[string]map[int32]kgo.Offset{task.Topic: {0: kgo.NewOffset().AtStart()}}
	options := []kgo.Opt{
		kgo.SeedBrokers(task.Address),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumePartitions(start),
	}
	if task.UsesTLS {
		config, err := tlsOf(task)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if task.Mechanism != "" {
		mechanism, err := mechanismOf(task)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func tlsOf(task Task) (*tls.Config, error) {
	authority, err := os.ReadFile(task.Authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if task.Identity != "" {
		identity, err := tls.LoadX509KeyPair(task.Identity, task.Identity)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{identity}
	}
	return config, nil
}

func mechanismOf(task Task) (sasl.Mechanism, error) {
	credentials := scram.Auth{User: task.User, Pass: task.Password, IsToken: task.IsToken}
	switch task.Mechanism {
	case "PLAIN":
		return plain.Auth{User: task.User, Pass: task.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return credentials.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return credentials.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: task.OauthbearerToken}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("unknown mechanism %q", task.Mechanism)
}
