"""TLS for a SuperLink: a certificate authority of its own, and one certificate.

The authority signs once and its key is thrown away, so nobody can sign a certificate for another server with it. When
the certificate expires, create new ones and send the new `ca.pem` to every member.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from commonweal.atomic_write import new_folder
from commonweal.errors import InputError

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "server.pem", "server.key"
MOST_DAYS = 3650
LOOPBACK_NAMES = ("localhost", "127.0.0.1")

_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\Z")


def make_certificates(
    directory: Path, host_names: Sequence[str], days: int = 365, *, files: Mapping[str, str] | None = None
) -> None:
    """Create a folder with ca.pem for every member, server.pem and server.key for the operator only, and these files.

    The certificate is valid for these host names and IP addresses, for the loopback interface, where the operator's own
    programs connect to the SuperLink, and for no others.
    """
    places = _alternative_names(host_names)
    if not 1 <= days <= MOST_DAYS:
        raise InputError(f"Certificates must be valid for 1 to {MOST_DAYS} days, got {days}.")
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)  # the members' clocks may be slow
    end = start + datetime.timedelta(days=days)
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, start, end)
    certificate = _certificate(authority, authority_key, server_key, places, start, end)
    with new_folder(directory, "the certificates folder") as folder:
        key_file = folder / KEY
        key_file.touch(mode=0o600)  # before it holds a secret
        key_file.write_bytes(
            server_key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (folder / CERTIFICATE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / AUTHORITY).write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        for name, text in (files or {}).items():
            (folder / name).write_text(text, encoding="utf-8")


def _alternative_names(host_names: Sequence[str]) -> x509.SubjectAlternativeName:
    if not host_names:
        raise InputError("A certificate must name at least one host, got none. Name that of the SuperLink.")
    return x509.SubjectAlternativeName([_general_name(name) for name in dict.fromkeys([*host_names, *LOOPBACK_NAMES])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if _HOST_NAME.match(name) is None or re.fullmatch(r"[\d.]+", name):
            raise InputError(
                f"A host must be a name or an IP address, got {name!r}. Write it without https:// and without a port, "
                "such as federation.example.org or 192.0.2.7."
            ) from None
    return x509.DNSName(name)


def _authority(key: ec.EllipticCurvePrivateKey, start: datetime.datetime, end: datetime.datetime) -> x509.Certificate:
    name = _name("commonweal federation authority")
    return (
        _blank(name, name, key.public_key(), start, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    places: x509.SubjectAlternativeName,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.Certificate:
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        _blank(_name("commonweal SuperLink"), authority.subject, key.public_key(), start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(places, critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _blank(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
