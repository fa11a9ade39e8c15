"""The HTTP mechanics that all routes share: schemas, serializers, paging, errors."""
