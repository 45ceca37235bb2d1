"""A certificate authority of a test's own, and a server at 127.0.0.1 that it vouches for."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = datetime.timedelta(days=1)
_MAY_SIGN = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


def certificates(folder: Path) -> tuple[Path, Path]:
    """Two PEM files in the folder: the authority's certificate, and the server's key and certificate."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority of a test")])
    server = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    vouching = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)  # Python 3.13 asks for it
    root = _about(issuer, issuer, authority_key.public_key()).add_extension(x509.BasicConstraints(True, None), True)
    root = root.add_extension(identifier, False).add_extension(_MAY_SIGN, True)
    made = _about(issuer, server, server_key.public_key()).add_extension(here, False).add_extension(vouching, False)
    authority, identity = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(_pem(root.sign(authority_key, hashes.SHA256())))
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    identity.write_bytes(private + _pem(made.sign(authority_key, hashes.SHA256())))
    return authority, identity


def _about(issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().issuer_name(issuer).subject_name(subject).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY).not_valid_after(now + _DAY)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
